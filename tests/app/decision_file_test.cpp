#include "sim/run/decision_file.hpp"

#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "strategies/training/train.hpp"

#include "scenarios/load.hpp"
#include "scenarios/scenario_error.hpp"
#include "sim/run/run.hpp"

#include "tests/app/command_fixture.hpp"

// Records of decisions as files: what may be in them, and that they are of one training.
namespace shardsim::test {
namespace {

using nlohmann::json;

constexpr const char* kScheduled = "scenarios/verify-llama-pp2-schedule-file.json";

// The first problem; its code is "none" for a file that is taken.
Problem problem_of(const std::string& text, const Scenario& scenario) {
  try {
    static_cast<void>(parse_decisions(text, compile(scenario), "skips.json"));
  } catch (const ScenarioError& error) {
    return error.problems().front();
  }
  Problem none;
  none.code = "none";
  return none;
}

// A record of 8 ranks and 10 steps, as in the scenario; the answers are made up.
std::string record_text(const Scenario& scenario) {
  DecisionLog log(static_cast<int>(scenario.system.ranks));
  for (int rank = 0; rank < log.num_ranks(); ++rank) {
    for (int step = 0; step < 10; ++step) log.add(rank, kSkipStep, step < 4);
  }
  return to_text(log, compile(scenario));
}

// The error code for a record in which one value is changed or added.
std::string code_with(const char* pointer, const json& value) {
  const Scenario scenario = skipping();
  json file = json::parse(record_text(scenario));
  file[json::json_pointer(pointer)] = value;
  return problem_of(file.dump(), scenario).code;
}

}  // namespace

TEST_CASE("records are files that any plan of the same training replays, on any machine") {
  const Scenario scenario = skipping();
  const RunOutcome real = run_scenario(scenario);
  const std::string text = to_text(*real.decisions, compile(scenario));
  CHECK(parse_decisions(text, compile(scenario), "") == *real.decisions);
  const json file = json::parse(text);
  REQUIRE(file["decisions"].size() == 1);  // All ranks decide alike.
  CHECK(file["decisions"][0]["name"] == "skip step");
  CHECK(file["decisions"][0]["ranks"] == json{0, 7});
  const auto overridden = [&](const std::string& field) {
    return problem_of(text, skipping({field})).code;
  };
  CHECK(overridden("execution.tensors=meta") == "none");
  CHECK(overridden("execution.all_reduce_algorithm=ring") == "none");
  CHECK(overridden("system.device.kernel_launch_us=7") == "none");
  CHECK(overridden("execution.seed=50") == "E0908");
  CHECK(overridden("execution.steps=11") == "E0908");
  CHECK(overridden("execution.reduction_order=ring") == "E0908");
  CHECK(overridden("training.loss_scale=1024") == "E0908");
  CHECK(overridden("model.seq_len=12") == "E0908");
  CHECK(overridden("parallelism.zero_stage=2") == "E0908");
}

// The content of a scenario's file belongs to the training; its name does not.
TEST_CASE("a record is of the popularity and the schedule that files had, not of their names") {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder / name) << text;
  };
  const auto with_popularity = [&](const char* name) {
    return load_scenario("scenarios/verify-llama-ep2-file.json",
                         {"model.moe_popularity_file=" + (folder / name)});
  };
  const auto with_schedule = [&](const char* name) {
    return load_scenario(kScheduled, {"parallelism.schedule_file=" + (folder / name)});
  };
  const auto record_of = [](const Scenario& scenario) {
    return to_text(DecisionLog(static_cast<int>(scenario.system.ranks)), compile(scenario));
  };
  write("own.json", "[5, 1, 1, 1, 1, 1, 1, 1]");
  write("same.json", "[5.0, 1, 1, 1, 1, 1, 1, 1]");
  const std::string routed = record_of(with_popularity("own.json"));
  CHECK(problem_of(routed, with_popularity("own.json")).code == "none");
  CHECK(problem_of(routed, with_popularity("same.json")).code == "none");
  write("own.json", "[1, 5, 1, 1, 1, 1, 1, 1]");
  CHECK(problem_of(routed, with_popularity("own.json")).code == "E0908");

  const auto csv_of = [](const char* schedule) {
    return shardsim({"schedule", kScheduled, "--csv", "--set",
                     std::string("parallelism.schedule=") + schedule})
        .out;
  };
  write("own.csv", csv_of("1f1b"));
  write("same.csv", csv_of("1f1b"));
  const std::string scheduled = record_of(with_schedule("own.csv"));
  CHECK(problem_of(scheduled, with_schedule("own.csv")).code == "none");
  CHECK(problem_of(scheduled, with_schedule("same.csv")).code == "none");
  write("own.csv", csv_of("gpipe"));
  CHECK(problem_of(scheduled, with_schedule("own.csv")).code == "E0908");
}

TEST_CASE("a record has the keys and types that it must have, and no others") {
  CHECK(code_with("/format", "shardsim-decisions") == "none");
  CHECK(code_with("/format", "x") == "E0909");
  CHECK(code_with("/version", 2) == "E0909");
  CHECK(code_with("/version", 1.0) == "E0909");
  CHECK(code_with("/ranks", 4) == "E0908");
  CHECK(code_with("/ranks", 8.0) == "E0909");
  CHECK(code_with("/ranks", 1e300) == "E0909");
  CHECK(code_with("/training", 3) == "E0909");
  CHECK(code_with("/decisions", nullptr) == "E0909");
  CHECK(code_with("/decisions/0", 3) == "E0909");
  CHECK(code_with("/note", "mine") == "E0909");
  CHECK(code_with("/decisions/0/note", "mine") == "E0909");
  CHECK(code_with("/decisions/0/name", 3) == "E0909");
  CHECK(code_with("/decisions/0/name", "converged") == "E0909");  // No run of a scenario has it.
  const json wrong_ranks[] = {{0, 8},     {-1, 7},  {5, 2},     {0, 7, 7},
                              {0},        7,        {},         {0, "7"},
                              {0.0, 7.0}, {0, 7.5}, {0, 1e300}, {0, 1ULL << 63U}};
  for (const json& ranks : wrong_ranks) {
    INFO(ranks);
    CHECK(code_with("/decisions/0/ranks", ranks) == "E0909");
  }
}

TEST_CASE("a record has one answer of every rank in every step, and ranks answer alike") {
  CHECK(code_with("/decisions/0/answers", "0000000000") == "none");
  CHECK(code_with("/decisions/0/answers", "000000000") == "E0909");
  CHECK(code_with("/decisions/0/answers", "00000000000") == "E0909");
  CHECK(code_with("/decisions/0/answers", "") == "E0909");
  CHECK(code_with("/decisions/0/answers", "0000000002") == "E0909");
  CHECK(code_with("/decisions/0/answers", 0) == "E0909");
  CHECK(code_with("/decisions", json::array()) == "E0909");
  const auto row = [](int first, int last, const char* answers) {
    return json{{"name", kSkipStep}, {"ranks", {first, last}}, {"answers", answers}};
  };
  const auto rows = [](const json& first, const json& second) {
    return code_with("/decisions", json::array({first, second}));
  };
  CHECK(rows(row(0, 3, "1100000000"), row(4, 7, "1100000000")) == "none");
  CHECK(rows(row(0, 3, "1100000000"), row(4, 7, "1000000000")) == "E0909");  // Else a deadlock.
  CHECK(rows(row(0, 3, "1100000000"), row(5, 7, "1100000000")) == "E0909");
  CHECK(rows(row(0, 7, "1100000000"), row(7, 7, "1100000000")) == "E0909");
  // Where nothing is skipped, nothing is answered.
  const Scenario unscaled = skipping({"training.loss_scaling=none"});
  CHECK(problem_of(record_text(unscaled), unscaled).code == "E0909");
  CHECK(problem_of(to_text(DecisionLog(8), compile(unscaled)), unscaled).code == "none");
}

TEST_CASE("what is wrong with a record is shown where it stands") {
  const Scenario scenario = skipping();
  const std::string text = record_text(scenario);
  std::string wrong = text;
  wrong.replace(wrong.find("1111000000"), 10, "1111000003");
  const Problem problem = problem_of(wrong, scenario);
  CHECK(problem.file == "skips.json");
  CHECK(problem.line == 13);
  CHECK(problem.column == 18);
  CHECK(problem.pointer == "/decisions/0/answers");
  CHECK(problem_of("", scenario).code == "E0002");
  CHECK(problem_of("{", scenario).code == "E0002");
  CHECK(problem_of("[]", scenario).code == "E0909");
  std::string twice = text;
  twice.insert(1, "\"format\": \"x\",");
  CHECK(problem_of(twice, scenario).code == "E0004");
  CHECK(problem_of(std::string(100, '['), scenario).code == "E0003");
  CHECK(problem_of(std::string((8U << 20U) + 1, ' '), scenario).code == "E0003");
  std::string many = "[0";
  for (int value = 0; value < 40000; ++value) many += ",0";
  CHECK(problem_of(many + "]", scenario).code == "E0003");
}

}  // namespace shardsim::test
