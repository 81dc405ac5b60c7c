#include "sim/accuracy/table_mapping.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/scenario_error.hpp"
#include "sim/accuracy/validated_table.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/validation/own_table.hpp"

namespace shardsim::test {
namespace {

Problem problem_of(const OwnTable& own) {
  try {
    static_cast<void>(read_table_mapping(own.mapping()));
  } catch (const ScenarioError& error) {
    CHECK(error.exit_code() == ExitCode::bad_usage);
    return error.problems().front();
  }
  FAIL("nothing is wrong");
  return {};
}

Problem after_edit(const std::string& part, const std::string& by) {
  OwnTable own;
  own.edit_mapping(part, by);
  return problem_of(own);
}

std::vector<std::string> overrides_of(const OwnTable& own, std::size_t row) {
  const TableMapping mapping = read_table_mapping(own.mapping());
  return row_scenario_of(mapping, mapping.table.rows[row]).overrides;
}

}  // namespace

TEST_CASE("a row becomes overrides of the mapping's scenario, exceptions last") {
  const OwnTable own;
  CHECK(overrides_of(own, 0) == std::vector<std::string>{"system.ranks=8", "parallelism.tp=2",
                                                         "training.global_batch_size=16",
                                                         "training.recompute=\"none\""});
  CHECK(overrides_of(own, 1).back() == "training.recompute=\"full\"");
}

TEST_CASE("rows that are not confirmed, or of trust C and D, are apart") {
  OwnTable own;
  TableMapping mapping = read_table_mapping(own.mapping());
  CHECK(row_scenario_of(mapping, mapping.table.rows[0]).apart.empty());
  CHECK(row_scenario_of(mapping, mapping.table.rows[4]).apart == "not confirmed");
  mapping.trust = "B";
  CHECK(row_scenario_of(mapping, mapping.table.rows[0]).apart.empty());
  mapping.trust = "C";
  CHECK(row_scenario_of(mapping, mapping.table.rows[0]).apart == "trust C");
  own.edit_mapping(R"("set": {"training.recompute": "full"})", R"("apart": "suspect")");
  mapping = read_table_mapping(own.mapping());
  CHECK(row_scenario_of(mapping, mapping.table.rows[1]).apart == "suspect");
}

TEST_CASE("keys and types of a mapping are checked, with the place and the way out") {
  const Problem key = after_edit(R"("trust": "A")", R"("thrust": "A")");
  CHECK(key.code == "E0926");
  CHECK(key.line == 4);
  CHECK(key.column == 3);
  CHECK(key.help == "write \"trust\"");
  CHECK(after_edit("  \"title\": \"A small model\",\n", "").message == "\"title\" is missing here");
  CHECK(after_edit(R"("trust": "A")", R"("trust": "E")").code == "E0926");
  CHECK(after_edit(R"("sample_stride": 3)", R"("sample_stride": 0)").code == "E0926");
  CHECK(after_edit(R"({"product": ["time_ms"], "over": [1000]})", R"({"over": [1000]})").line == 9);
  CHECK(after_edit(R"({"column": "tp"})", R"({"column": "tp", "product": ["tp"]})").code ==
        "E0926");
  CHECK(after_edit(R"("where": {"tp": "1"})", R"("where": {"tp": 1})").code == "E0926");
  CHECK(after_edit("  \"fields\": {", "  \"fields\": 3,\n  \"x\": {").code == "E0926");
  CHECK(after_edit("\"label\"", "\"label\" oops").code.substr(0, 3) == "E00");
}

TEST_CASE("a column or a field that is not there is told with what is near it") {
  const Problem column = after_edit(R"({"column": "gpus"})", R"({"column": "gpu"})");
  CHECK(column.code == "E0927");
  CHECK(column.line == 20);
  CHECK(contains(column.message, "has no column \"gpu\""));
  CHECK(column.help == "write \"gpus\"");
  const Problem field = after_edit(R"("parallelism.tp": )", R"("parallelism.tpp": )");
  CHECK(field.code == "E0928");
  CHECK(field.line == 21);
  CHECK(field.help == "write \"parallelism.tp\"");
  OwnTable own;
  own.edit_table(",source,", ",origin,");
  const Problem source = problem_of(own);
  CHECK(source.code == "E0927");
  CHECK(source.line == 3);
  CHECK(contains(source.message, "no column \"source\""));
}

TEST_CASE("errors of the mapping's scenario name the mapping's own lines") {
  OwnTable own;
  own.edit_mapping(R"("num_layers": 4)", R"("num_layer": 4)");
  const TableMapping mapping = read_table_mapping(own.mapping());
  const ValidatedTable table = validate_table(mapping, 6, [] {});
  REQUIRE(table.rows.size() == 1);
  // No row can run then, and each says the loader's own words.
  CHECK(contains(table.rows[0].refused, "num_layer"));
  CHECK(mapping.scenario_text.size() == mapping.text->text.size());
  const std::size_t at = mapping.scenario_text.find("num_layer");
  CHECK(at == mapping.text->text.find("num_layer"));
  // And on its line: only what is no line end around the scenario is blank.
  const std::string before = mapping.text->text.substr(0, at);
  CHECK(std::count(before.begin(), before.end(), '\n') == 13);
  const std::string blank = mapping.scenario_text.substr(0, at);
  CHECK(std::count(blank.begin(), blank.end(), '\n') == 13);
}

}  // namespace shardsim::test
