#include "sim/accuracy/residuals.hpp"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/validation/own_table.hpp"

// Where step times are wrong, by hand: rows measure 8 s.
namespace shardsim::test {
namespace {

constexpr std::size_t kFramework = 0;
constexpr std::size_t kGpus = 3;
constexpr std::size_t kTp = 4;

ValidatedRow traced_row(double predicted, const std::string& framework, int gpus, int tp = 1) {
  ValidatedRow made;
  made.quantities.at(kStepTime) = PredictedAndMeasured{predicted, 8.0};
  made.traits.at(kFramework) = {framework, std::nullopt};
  for (std::size_t i = kFramework + 1; i < kTraits.size(); ++i) made.traits.at(i) = {"1", 1.0};
  made.traits.at(kGpus) = {std::to_string(gpus), gpus};
  made.traits.at(kTp) = {std::to_string(tp), tp};
  return made;
}

ValidatedTable traced_table(std::vector<ValidatedRow> rows) {
  ValidatedTable made;
  made.name = "traced";
  made.rows = std::move(rows);
  return made;
}

// Errors of -1/4 and -1/2 at tp 1, of +1/4 and +1/2 at tp 2, and of 0 at tp 4. The GPUs say little.
ValidatedTable tp_table() {
  return traced_table({traced_row(6, "a", 8, 1), traced_row(4, "a", 16, 1),
                       traced_row(10, "a", 8, 2), traced_row(12, "a", 16, 2),
                       traced_row(8, "a", 8, 4)});
}

}  // namespace

TEST_CASE("the largest residuals come first, three of a table at most") {
  std::vector<ValidatedTable> tables = {
      traced_table({traced_row(6, "a", 1), traced_row(4, "a", 1), traced_row(2, "a", 1),
                    traced_row(1, "a", 1), traced_row(16, "a", 1)}),
      traced_table({traced_row(8, "a", 1), traced_row(12, "a", 1), traced_row(24, "a", 1)})};
  tables[1].rows[2].apart = "not confirmed";
  // 7/8 too fast, then twice as slow, 3/4; the half of the first table is its fourth.
  const std::vector<StepResidual> expected = {{0, 4}, {0, 3}, {0, 2}, {1, 1}, {1, 0}};
  CHECK(largest_residuals(tables) == expected);
  const std::vector<ValidatedTable> many(4, tables[0]);
  CHECK(largest_residuals(many).size() == kMostResiduals);
}

TEST_CASE("rows of all tables have figures by a trait, numbers in their order") {
  const std::vector<ValidatedTable> tables = {
      traced_table({traced_row(10, "b", 16), traced_row(4, "a", 8)}),
      traced_table({traced_row(6, "b", 8)})};
  const std::vector<TraitGroup> words = trait_groups(tables, kFramework);
  REQUIRE(words.size() == 2);
  CHECK(words[0].value == "b");
  CHECK(words[0].rows == 2);
  CHECK(words[0].mean_absolute == 0.25);
  CHECK(words[0].bias == 0.0);
  CHECK(words[1].bias == -0.5);
  const std::vector<TraitGroup> numbers = trait_groups(tables, kGpus);
  REQUIRE(numbers.size() == 2);
  CHECK(numbers[0].value == "8");
  CHECK(numbers[0].rows == 2);
  CHECK(numbers[0].bias == -0.375);
  CHECK(numbers[1].value == "16");
}

TEST_CASE("many numbers become ranges of powers of two") {
  std::vector<ValidatedRow> rows;
  for (const int gpus : {1, 2, 3, 4, 5, 6, 7, 8, 300}) rows.push_back(traced_row(8, "a", gpus));
  const std::vector<ValidatedTable> tables = {traced_table(rows)};
  const std::vector<TraitGroup> groups = trait_groups(tables, kGpus);
  REQUIRE(groups.size() == 5);
  CHECK(groups[0].value == "1");
  CHECK(groups[1].value == "2 to 3");
  CHECK(groups[2].value == "4 to 7");
  CHECK(groups[2].rows == 4);
  CHECK(groups[3].value == "8 to 15");
  CHECK(groups[4].value == "256 to 511");
  for (int power = 0; power < 9; ++power) rows.push_back(traced_row(8, "a", 1 << power));
  // Nine powers are too many groups: 4 to 15 is one.
  const std::vector<ValidatedTable> wide = {traced_table(rows)};
  const std::vector<TraitGroup> wider = trait_groups(wide, kGpus);
  REQUIRE(wider.size() == 5);
  CHECK(wider[1].value == "4 to 15");
  CHECK(wider[1].rows == 7);
}

TEST_CASE("a residual is located by the trait that explains most of it") {
  const std::vector<ErrorGrowth> growths = located_residuals(tp_table());
  REQUIRE(growths.size() == 2);  // All else is equal in all rows.
  CHECK(growths[0].trait == kTp);
  CHECK(growths[0].groups.size() == 3);
  CHECK(growths[0].groups[0].bias == -0.375);
  CHECK(growths[0].groups[1].bias == 0.375);
  CHECK(growths[0].spread == 0.75);
  // Squares: 2 x (1/16 + 1/4) = 0.625 of all, 4 x 1/64 = 0.0625 within; by 4 and 2 degrees.
  CHECK(*growths[0].explained == 0.8);
  CHECK(growths[1].trait == kGpus);
  // 8 GPUs: 0 of -1/4, 1/4, 0; 16 GPUs: 0 of -1/2, 1/2. Nothing between, by 4 and 3 degrees.
  CHECK(growths[1].spread == 0.0);
  CHECK(*growths[1].explained == 1.0 - 4.0 / 3.0);
}

TEST_CASE("tables of four rows or within a tenth are not located") {
  ValidatedTable four = tp_table();
  four.rows.pop_back();
  CHECK(located_residuals(four).empty());
  ValidatedTable near = tp_table();
  for (ValidatedRow& row : near.rows) row.quantities.at(kStepTime)->predicted = 7.25;
  CHECK(located_residuals(near).empty());
  for (ValidatedRow& row : near.rows) row.quantities.at(kStepTime)->predicted = 7.0;
  REQUIRE(located_residuals(near).size() == 2);
  CHECK_FALSE(located_residuals(near)[0].explained);  // All errors are equal.
  ValidatedTable alone = tp_table();
  for (int i = 0; i < 5; ++i) {
    alone.rows[static_cast<std::size_t>(i)].traits.at(kTp) = {std::to_string(i), i};
  }
  const std::vector<ErrorGrowth> growths = located_residuals(alone);
  CHECK(growths.back().trait == kTp);  // One row each says nothing.
  CHECK_FALSE(growths.back().explained);
}

TEST_CASE("text and page show the largest residuals and what errors vary with") {
  std::vector<ValidatedTable> tables = {tp_table()};
  tables[0].rows[3].parts = StepParts{7.0, 3.0, 1.5, 0.5};
  tables[0].rows[3].line = 5;
  const std::string text = residuals_text(tables);
  CHECK(contains(text, "by framework: a: 30.0 % (+0.0, 5 rows)\n"));
  CHECK(contains(text,
                 "  traced     5   +50.0 %     8.000    12.000    -4.000         7.000"
                 "         3.000         1.500         0.500\n"));
  CHECK(contains(text,
                 "  traced (5 rows, mean |error| 30.0 %)\n"
                 "    tp, explains 80 %, spread 75.0 %: 1: -37.5 (2); 2: +37.5 (2); 4: "
                 "+0.0 (1)\n"));
  CHECK_FALSE(contains(text, "GPUs, explains"));
  const std::string page = residuals_html(tables);
  CHECK(contains(page, "<td>12.000</td><td>-4.000</td><td>7.000</td><td>3.000</td>"));
  CHECK(contains(page, "<td class=\"text\">tp</td><td>80 %</td><td>75.0 %</td>"));
  CHECK(residuals_text({}).empty());
  CHECK(residuals_html({}).empty());
}

TEST_CASE("rows of validate have the parts and traits of their scenario") {
  OwnTable own;
  own.edit_mapping(R"("num_layers": 4)", R"("num_layers": 6)");
  own.edit_mapping(R"("seq_len": 128)", R"("seq_len": 64)");
  own.edit_mapping(R"({"micro_batch_size": 1})",
                   R"({"micro_batch_size": 4}, "parallelism": {"pp": 2})");
  const auto report = nlohmann::json::parse(shardsim(own.words({"--json"})).out);
  const auto& row = report.at("tables").at(0).at("rows").at(1);
  CHECK(row.at("traits") == nlohmann::json::parse(R"({"framework": "megatron-core-2025",
      "machine": "NVIDIA DGX A100", "precision": "bf16", "gpus": 8.0, "tp": 1.0, "pp": 2.0,
      "micro_batch_size": 4.0, "tokens_per_gpu": 128.0, "sequence_length": 64.0, "layers": 6.0,
      "hidden_size": 256.0})"));
  const Scenario scenario = load_scenario_text(
      R"({"schema_version": 1, "model": {"family": "gpt2", "num_layers": 6, "hidden_size": 256,
          "num_attention_heads": 8, "vocab_size": 1024, "seq_len": 64},
          "system": {"preset": "dgx-a100", "ranks": 8}, "parallelism": {"pp": 2},
          "training": {"micro_batch_size": 4, "global_batch_size": 16, "recompute": "full"}})",
      "same.json");
  const Result result = run_scenario(scenario).result;
  double sum = 0.0;
  std::set<double> different;
  for (const char* part : {"compute_s", "exposed_comm_s", "host_s", "bubble_s"}) {
    INFO(part);
    const double seconds = row.at("parts").at(part);
    CHECK(seconds == *result.number(std::string("time.") + part));
    sum += seconds;
    different.insert(seconds);
  }
  CHECK(different.size() == 4);
  CHECK(sum == Approx(row.at("step_time_s").at("predicted").get<double>()).epsilon(1e-12));
  const auto& largest = report.at("largest_residuals");
  REQUIRE(largest.size() == 2);
  CHECK(largest.at(0).at("table") == "small");
  CHECK(largest.at(0).at("missing").get<double>() ==
        largest.at(0).at("measured").get<double>() - largest.at(0).at("predicted").get<double>());
  CHECK(report.at("by").at("gpus").at(0).at("rows") == 2);
  CHECK(report.at("tables").at(0).at("varies_with").empty());  // Two rows.
  const Printed text = shardsim(own.words());
  CHECK(contains(text.out, "\nlargest errors of step time"));
  const TemporaryFolder folder;
  const std::string page = folder.path() + "/page.html";
  CHECK(shardsim(own.words({"--html", page})).exit_code == 0);
  CHECK(contains(content_of(page), "<h2>Largest errors of step time</h2>"));
}

}  // namespace shardsim::test
