#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "scenarios/scenario_error.hpp"
#include "sim/sweep/run_sweep.hpp"

#include "tests/app/command_fixture.hpp"

// The parts of a sweep: the block in the file, --axis, and the points they give.
namespace shardsim::test {

namespace {

constexpr const char* kBefore = R"({
  "schema_version": 1,
  "model": {"family": "mlp", "num_layers": 2, "hidden_size": 24, "ffn_hidden_size": 37, "vocab_size": 11},
  "system": {"preset": "dgx-h100", "nodes": 1},
  "training": {"global_batch_size": 16, "precision": "bf16"},
)";

class SweepFile {
 public:
  explicit SweepFile(const std::string& block) {
    write(path(), std::string(kBefore) + "  \"sweep\": " + block + "\n}\n");
  }
  [[nodiscard]] std::string path() const { return folder_ / "scenario.json"; }
  [[nodiscard]] SweepPlan plan(const std::vector<std::string>& axes = {}) const {
    return load_sweep({.file = path(), .overrides = {}, .axes = axes});
  }
  [[nodiscard]] std::vector<Problem> problems() const {
    try {
      static_cast<void>(plan());
    } catch (const ScenarioError& error) {
      return error.problems();
    }
    return {};
  }

 private:
  TemporaryFolder folder_;
};

Problem only_problem(const std::string& block) {
  const std::vector<Problem> problems = SweepFile(block).problems();
  for (const Problem& problem : problems) UNSCOPED_INFO(render(problem));
  REQUIRE(problems.size() == 1);
  return problems.front();
}

std::vector<std::string> points_of(const SweepPlan& plan) {
  std::vector<std::string> points;
  for (std::size_t point = 0; point < plan.num_points; ++point) {
    std::string words;
    for (const std::string& value : values_of(plan, point)) words += value + " ";
    points.push_back(words);
  }
  return points;
}

}  // namespace

TEST_CASE("points are the product of axes and zip groups, the last one fastest", "[sweep]") {
  const SweepFile file(R"({"axes": {"parallelism.tp": [1, 2]},
                           "zip": [{"training.precision": ["bf16", "fp32"],
                                    "training.micro_batch_size": [2, 1]}]})");
  const SweepPlan plan = file.plan();
  CHECK(plan.columns == std::vector<std::string>{"parallelism.tp", "training.precision",
                                                 "training.micro_batch_size"});
  CHECK(points_of(plan) == std::vector<std::string>{"1 \"bf16\" 2 ", "1 \"fp32\" 1 ",
                                                    "2 \"bf16\" 2 ", "2 \"fp32\" 1 "});
  CHECK(overrides_of(plan, 3) == std::vector<std::string>{"parallelism.tp=2",
                                                          "training.precision=\"fp32\"",
                                                          "training.micro_batch_size=1"});
}

TEST_CASE("a preset is set before what belongs into it", "[sweep]") {
  const SweepPlan plan =
      SweepFile(R"({"axes": {"system.nodes": [2], "system": ["dgx-b200"]}})").plan();
  CHECK(overrides_of(plan, 0) == std::vector<std::string>{"system=\"dgx-b200\"", "system.nodes=2"});
}

TEST_CASE("--axis adds an axis, or stands for one of the file", "[sweep]") {
  const SweepFile file(R"({"axes": {"parallelism.tp": [1, 2]}})");
  CHECK(points_of(file.plan({"parallelism.tp=4"})) == std::vector<std::string>{"4 "});
  CHECK(points_of(file.plan({"parallelism.dp_shard=auto,2"})) ==
        std::vector<std::string>{"1 \"auto\" ", "1 2 ", "2 \"auto\" ", "2 2 "});
  CHECK(points_of(file.plan({"parallelism.tp=1", "parallelism.stage_layers=[1,1],[2]"})) ==
        std::vector<std::string>{"1 [1,1] ", "1 [2] "});
  for (const char* flag : {"parallelism.tp", "parallelism.tp=", "=1", "parallelism.tp=1,,2"}) {
    CHECK_THROWS_AS(file.plan({flag}), ScenarioError);
  }
}

TEST_CASE("what is wrong with a sweep is said with its place", "[sweep]") {
  const Problem unknown =
      only_problem(R"({"axes": {"parallelism.tensor_model_parallel_size": [1]}})");
  CHECK(unknown.code == "E1301");
  CHECK(unknown.line == 6);
  CHECK(unknown.column == 22);
  CHECK(unknown.pointer == "/sweep/axes/parallelism.tensor_model_parallel_size");
  CHECK(unknown.label == "Megatron-LM's name; here it is \"tp\"");
  CHECK(only_problem(R"({"axes": {"paralelism.tp": [1]}})").label ==
        "did you mean \"parallelism.tp\"?");
  CHECK(only_problem(R"({"axes": {"output.trace": ["a.json"]}})").code == "E1301");
  CHECK(only_problem(R"({"axes": {"parallelism.tp": []}})").code == "E1302");
  CHECK(only_problem(R"({"axes": {"parallelism.tp": 2}})").code == "E1302");
  CHECK(only_problem(R"({"axes": {"parallelism.tp": [1, 2, 1]}})").code == "E1303");
  CHECK(
      only_problem(R"({"axes": {"parallelism.tp": [1]}, "zip": [{"parallelism.tp": [2]}]})").code ==
      "E1303");
  const Problem unequal =
      only_problem(R"({"zip": [{"parallelism.tp": [1, 2], "parallelism.pp": [1, 2, 3]}]})");
  CHECK(unequal.code == "E1304");
  CHECK(unequal.message ==
        "\"parallelism.pp\" has 3 values, but \"parallelism.tp\" beside it has 2");
  CHECK(only_problem(R"({"axis": {}})").label == "did you mean \"axes\"?");
  CHECK(only_problem(R"({"axes": {"parallelism.tp": [1]}, "skip": ["out of memory"]})").label ==
        "did you mean \"out_of_memory\"?");
  CHECK(only_problem(R"({"axes": {"parallelism.tp": [1]}, "objectives": ["max mfv"]})").label ==
        "did you mean \"mfu\"?");
  CHECK(only_problem(R"({"axes": {"parallelism.tp": [1]}, "objectives": ["mfu"]})").code ==
        "E1305");
  // Values are those of their fields.
  CHECK(only_problem(R"({"axes": {"parallelism.tp": [1, "two"]}})").code == "E0101");
  CHECK(only_problem(R"({"axes": {"parallelism.zero_stage": [4]}})").code == "E0102");
  CHECK(only_problem(R"({"axes": {"training.precision": ["bf61"]}})").code == "E0104");
}

TEST_CASE("a sweep of more than a million points is refused", "[sweep]") {
  std::string block = "{\"axes\": {";
  for (const char* axis : {"execution.seed", "execution.steps", "training.global_batch_size"}) {
    block += std::string(block.back() == '{' ? "" : ", ") + "\"" + axis + "\": [";
    for (int value = 1; value <= 101; ++value) {
      block += (value == 1 ? "" : ",") + std::to_string(value);
    }
    block += "]";
  }
  CHECK(only_problem(block + "}}").code == "E1306");
}

TEST_CASE("nothing to vary, and an axis that is set, are refused", "[sweep]") {
  const SweepFile file(R"({"axes": {"parallelism.tp": [1, 2]}})");
  try {
    static_cast<void>(load_sweep({.file = kPlan}));
    FAIL("a scenario without a sweep has no points");
  } catch (const UsageError& error) {
    CHECK(error.code() == "E1307");
  }
  try {
    static_cast<void>(load_sweep({.file = file.path(), .overrides = {"parallelism.tp=4"}}));
    FAIL("either it varies or it is set");
  } catch (const UsageError& error) {
    CHECK(error.code() == "E1308");
  }
}

TEST_CASE("a slip in the file is told once, before any point runs", "[sweep]") {
  const TemporaryFolder folder;
  write(folder / "s.json",
        std::string(kBefore) +
            "  \"sweep\": {\"axes\": {\"training.precision\": [\"fp32\", \"bf16\"]}},\n"
            "  \"paralelism\": {}\n}\n");
  const Printed printed = shardsim({"sweep", folder / "s.json", "--out", folder / "out"});
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.err, "error[E0107]"));
  CHECK(contains(printed.err, "s.json:7:3"));
  CHECK(files_in(folder) == std::vector<std::string>{"s.json"});
}

TEST_CASE("a plain run leaves the sweep out, but says what is wrong with it", "[sweep]") {
  const SweepFile good(R"({"axes": {"parallelism.tp": [1, 2]}})");
  CHECK(shardsim({"run", good.path()}).exit_code == 0);
  CHECK(load_scenario(good.path()).parallelism.tp == 1);
  CHECK_FALSE(contains(load_scenario(good.path()).resolved_json, "sweep"));
  const Printed printed =
      shardsim({"check", SweepFile(R"({"axes": {"parallelism.tpp": [1]}})").path()});
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.err, "error[E1301]"));
}

TEST_CASE("the sweep's hash stands for scenario and axes, not for what is best", "[sweep]") {
  const std::string axes = R"("axes": {"parallelism.tp": [1, 2]})";
  const std::string hash = SweepFile("{" + axes + "}").plan().hash;
  CHECK(
      SweepFile("{" + axes + R"(, "skip": ["invalid"], "objectives": ["max mfu"]})").plan().hash ==
      hash);
  CHECK(SweepFile(R"({"axes": {"parallelism.tp": [2, 1]}})").plan().hash != hash);
  CHECK(SweepFile("{" + axes + "}").plan({"parallelism.pp=1"}).hash != hash);
  const SweepFile file("{" + axes + "}");
  CHECK(load_sweep({.file = file.path(), .overrides = {"system.nodes=2"}}).hash != hash);
}

}  // namespace shardsim::test
