#include "sim/accuracy/one_constant.hpp"

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/app/command_fixture.hpp"
#include "tests/validation/own_table.hpp"

// The formula that predictions must beat, by hand.
namespace shardsim::test {
namespace {

ValidatedRow row(const std::string& generation, double at_peak, double measured, double predicted) {
  ValidatedRow made;
  made.at_peak = TimeAtPeak{at_peak, generation};
  made.quantities.at(kStepTime) = PredictedAndMeasured{predicted, measured};
  return made;
}

ValidatedTable table(std::vector<ValidatedRow> rows) {
  ValidatedTable made;
  made.rows = std::move(rows);
  return made;
}

// Shares of the peak: 0.5 and 0.25 on ampere, 0.125 on hopper.
std::vector<ValidatedTable> three_tables() {
  return {table({row("ampere", 1, 2, 2), row("hopper", 1, 8, 4)}), table({row("ampere", 1, 4, 5)}),
          table({row("ampere", 3, 8, 8), row("ampere", 3, 16, 12), row("hopper", 2, 4, 4)})};
}

}  // namespace

TEST_CASE("a formula's constant is the median of the other tables' medians") {
  const std::vector<ValidatedTable> tables = three_tables();
  const auto figures = one_constant_figures(tables, 2);
  REQUIRE(figures);
  REQUIRE(figures->constants.size() == 2);
  CHECK(figures->constants[0].generation == "ampere");
  CHECK(figures->constants[0].share == 0.375);  // Between 0.5 and 0.25.
  CHECK(figures->constants[0].tables == 2);
  CHECK(figures->constants[1].share == 0.125);
  CHECK(figures->rows == 3);
  // 3 / 0.375 = 8 of 8 and of 16, 2 / 0.125 = 16 of 4; predictions: 8 of 8, 12 of 16, 4 of 4.
  CHECK(figures->formula == (0.0 + 0.5 + 3.0) / 3.0);
  CHECK(figures->own == 0.25 / 3.0);
}

TEST_CASE("a table whose GPUs are in no other table has no constant, nor have rows apart") {
  std::vector<ValidatedTable> tables = three_tables();
  tables[2].rows[2].apart = "not confirmed";
  const auto first = one_constant_figures(tables, 0);
  REQUIRE(first);
  CHECK(first->rows == 1);  // The row on hopper is left out on both sides.
  CHECK(first->own == 0.0);
  CHECK_FALSE(one_constant_figures({&tables[0], 1}, 0));
  tables[1].rows[0].at_peak.reset();
  CHECK_FALSE(one_constant_figures(tables, 1));
}

TEST_CASE("validate says what one constant would do, where another table has the same GPUs") {
  const OwnTable own;
  const Printed alone = shardsim(own.words({"--json"}));
  const auto table = nlohmann::json::parse(alone.out).at("tables").at(0);
  CHECK(table.at("one_constant").is_null());
  CHECK(table.at("rows").at(0).at("at_peak").at("generation") == "ampere");
  const std::string copy = content_of(own.mapping());
  std::ofstream(own.path("twin.json"), std::ios::binary) << copy;
  const Printed both = shardsim(own.words());
  INFO(both.err);
  CHECK(both.exit_code == 0);
  CHECK(contains(both.out, "of the peak, the median of 1 other table of ampere)"));
  const auto twins = nlohmann::json::parse(shardsim(own.words({"--json"})).out).at("tables");
  REQUIRE(twins.size() == 2);
  CHECK(twins[0].at("one_constant").at("mean_absolute_error") ==
        twins[1].at("one_constant").at("mean_absolute_error"));
  CHECK(twins[0].at("one_constant").at("mean_absolute_error_of_predictions") ==
        twins[0].at("headline").at("step_time_s").at("mean_absolute_error"));
}

}  // namespace shardsim::test
