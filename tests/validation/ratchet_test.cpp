#include "sim/accuracy/ratchet.hpp"

#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/scenario_error.hpp"

#include "tests/temporary_folder.hpp"

namespace shardsim::test {
namespace {

ValidatedTable table_with(const std::vector<PredictedAndMeasured>& times) {
  ValidatedTable table;
  table.name = "small";
  for (const PredictedAndMeasured& time : times) {
    table.rows.emplace_back().quantities[kStepTime] = time;
  }
  return table;
}

RatchetFigures figures_of(const std::vector<PredictedAndMeasured>& times) {
  RatchetFigures figures;
  set_figures(figures, false, {table_with(times)});
  return figures;
}

std::vector<std::string> against(const RatchetFigures& figures,
                                 const std::vector<PredictedAndMeasured>& times) {
  return became_worse(figures, false, {table_with(times)});
}

RatchetFigures read_back(const std::string& text) {
  const TemporaryFolder folder;
  std::ofstream(folder / "ratchet.json", std::ios::binary) << text;
  return read_ratchet(folder / "ratchet.json");
}

}  // namespace

TEST_CASE("an error may shrink or stay, and may not grow") {
  const RatchetFigures figures = figures_of({{5, 4}, {3, 4}});  // 25 %.
  CHECK(against(figures, {{5, 4}, {3, 4}}).empty());
  CHECK(against(figures, {{5, 4}, {4, 4}}).empty());
  CHECK(against(figures, {{6, 4}, {3, 4}}) ==
        std::vector<std::string>{
            "small, step time: mean absolute error 37.5000 %, at most 25.0000 % is allowed"});
}

TEST_CASE("rows may not vanish, and rows that are apart do not count") {
  const RatchetFigures figures = figures_of({{5, 4}, {3, 4}});
  CHECK(against(figures, {{4, 4}}) ==
        std::vector<std::string>{"small, step time: 1 rows are compared, 2 were"});
  CHECK(against(figures, {}) ==
        std::vector<std::string>{"small, step time: no row is compared any more"});
  ValidatedTable table = table_with({{5, 4}, {3, 4}});
  table.rows[1].apart = "not confirmed";
  CHECK(became_worse(figures, false, {table}).size() == 1);
}

TEST_CASE("a table without a figure must get one; samples and whole tables are kept apart") {
  const RatchetFigures figures = figures_of({{5, 4}});
  CHECK(became_worse(figures, true, {table_with({{5, 4}})}) ==
        std::vector<std::string>{"small, step time: the ratchet has no figure for it"});
  RatchetFigures both = figures;
  set_figures(both, true, {table_with({{8, 4}})});
  CHECK(both.at("whole").at("small").at("step_time_s").mean_absolute_error == 0.25);
  CHECK(both.at("sample").at("small").at("step_time_s").mean_absolute_error == 1.0);
}

TEST_CASE("the file reads back, rounded so that what was just written holds") {
  const std::vector<PredictedAndMeasured> times = {{4, 3}, {7, 9}};
  const RatchetFigures figures = read_back(ratchet_text(figures_of(times)));
  CHECK(against(figures, times).empty());
  const RatchetFigure figure = figures.at("whole").at("small").at("step_time_s");
  CHECK(figure.rows == 2);
  CHECK(figure.mean_absolute_error == 0.277778);  // (1/3 + 2/9) / 2, rounded up.
  CHECK(ratchet_text(figures) == ratchet_text(figures_of(times)));
}

TEST_CASE("a wrong file is told with its line") {
  try {
    read_back("{\n\"whole\": {\"small\": {\n\"step_time_s\": {\"rows\": 2}}}}");
    FAIL("it was read");
  } catch (const ScenarioError& error) {
    CHECK(error.code() == "E0930");
    CHECK(error.problems()[0].line == 3);
  }
  CHECK_THROWS_AS(read_back("{\"half\": {}}"), ScenarioError);
  CHECK_THROWS_AS(read_back("[]"), ScenarioError);
}

}  // namespace shardsim::test
