#include "sim/programs/program_replay.hpp"

#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/kernel/error.hpp"
#include "sim/kernel/metric_rows.hpp"

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

#include "sim/programs/program_set.hpp"
#include "tests/app/command_fixture.hpp"
#include "tests/programs/programs_fixture.hpp"
#include "tests/temporary_folder.hpp"

// A file of programs on a machine takes the time of its scenario there, to the picosecond.
namespace shardsim::test {
namespace {

ProgramReplay replayed(const ProgramSet& set, const Experiment& machine) {
  return replay_programs_on(set, {.cluster = machine_for(set, machine)});
}

double step_seconds(const Experiment& experiment) {
  const RunOutcome outcome = run_experiment(experiment);
  for (const Metric& metric : outcome.result.metrics) {
    if (metric.name == metric::kStepTimeS.name) return std::get<double>(metric.value);
  }
  return -1.0;
}

constexpr const char* kReplayedPlan = R"({
  "schema_version": 1, "name": "small plan",
  "model": {"family": "llama", "num_layers": 4, "hidden_size": 256, "ffn_hidden_size": 512,
            "num_attention_heads": 8, "vocab_size": 512, "seq_len": 256},
  "system": {"preset": "dgx-h100", "nodes": 2, "software": "none"},
  "parallelism": {"tp": 2, "pp": 2, "zero_stage": 1},
  "training": {"global_batch_size": 16, "micro_batch_size": 1},
  "execution": {"tensors": "meta", "steps": 2}
})";

Experiment plan_with(const std::vector<std::string>& overrides) {
  return compile(load_scenario_text(kReplayedPlan, "plan.json", overrides));
}

ProgramSet from_file(const Experiment& experiment) {
  return read_program_file(program_file_of(record_programs(experiment)), "test.jsonl");
}

}  // namespace

TEST_CASE("a file of each shipped verification takes the time of its plan") {
  int compared = 0;
  for_each_verification("replay", [&](const std::string& name, Scenario scenario) {
    INFO(name);
    const Experiment experiment = compile(std::move(scenario));
    const ProgramReplay replay = replayed(from_file(experiment), experiment);
    CHECK(replay.has_steps);
    CHECK(replay.step.seconds() == step_seconds(experiment));
    ++compared;
  });
  CHECK(compared > 20);
}

TEST_CASE("on another machine it takes the time that its plan takes there") {
  const ProgramSet set = from_file(plan_with({}));
  const std::vector<std::vector<std::string>> machines = {
      {"system.oversubscription=2", "system.nodes_per_pod=1"},
      {"system.device.memory_bandwidth_gb_per_s=1000"},
      {"system.host_us_per_kernel=9"},
      {"system.host_us_per_call=1000"},
      {"system.preset=dgx-b200"},
      {"system.preset=dgx-a100"},
      {"faults={\"stragglers\": [{\"rank\": 3, \"slowdown\": 1.5}]}"}};
  for (const std::vector<std::string>& overrides : machines) {
    INFO(overrides.front());
    const Experiment machine = plan_with(overrides);
    const ProgramReplay replay = replayed(set, machine);
    CHECK(replay.step.seconds() == step_seconds(machine));
    CHECK(replay.step != replayed(set, plan_with({})).step);
  }
}

TEST_CASE("computing that is only known by its time keeps it, unless it is scaled") {
  const ProgramSet set = read_program_file(small_program_file("j1 m0 h0 h0 m1"), "test.jsonl");
  const Experiment machine = plan_with({});
  // The host of each hole takes 1 us, the device 5 us: the device waits for the first only.
  const ProgramReplay replay = replayed(set, machine);
  CHECK(replay.split.compute.picoseconds() == 10'000'000);
  CHECK(replay.step == replay.split.compute + replay.split.host);
  CHECK(replay.taken_over_s == Approx(2 * 10e-6));  // On two ranks.
  CHECK(replay.priced_s == 0.0);
  const ProgramReplay faster =
      replay_programs_on(set, {.cluster = machine_for(set, machine), .hole_factor = 0.5});
  CHECK(faster.split.compute.picoseconds() == 5'000'000);
}

TEST_CASE("ranks fill as many nodes of a machine as they need") {
  const ProgramSet set = from_file(plan_with({}));  // 16 ranks.
  const Cluster cluster = machine_for(set, plan_with({"system.nodes=8"}));
  CHECK(cluster.num_nodes == 2);
  const ProgramSet two = read_program_file(small_program_file(), "test.jsonl");
  const Cluster part = machine_for(two, plan_with({}));
  CHECK(part.num_nodes == 1);
  CHECK(part.gpus_per_node == 2);
  CHECK_THROWS_AS(machine_for(two, plan_with({"faults={\"stragglers\": [{\"rank\": 3, "
                                              "\"slowdown\": 1.5}]}"})),
                  UsageError);
}

TEST_CASE("programs that do not fit together are a named error") {
  std::string text = small_program_file();
  const std::string one = R"("ranks": [[0, 2]])";
  text.replace(text.find(one), one.size(), R"("ranks": [[0, 1]])");
  text +=
      R"({"program": {"rank": 1, "ranks": [[1, 1]], "groups": [{"name": "dp", "size": 2, "axes": [[2, 1]]}]}}
{"steps": "j1 m0 m1"}
)";
  const ProgramSet set = read_program_file(text, "test.jsonl");
  try {
    replayed(set, plan_with({}));
    FAIL("it has an end");
  } catch (const Error& error) {
    CHECK(error.code() == "E1379");
    CHECK(std::string(error.what()) ==
          "the programs of the ranks do not fit together: some ranks wait for ever");
  }
}

TEST_CASE("the command writes programs and replays them") {
  const TemporaryFolder folder;
  write(folder / "plan.json", kReplayedPlan);
  const Printed exported =
      shardsim({"export", "program", folder / "plan.json", "-o", folder / "plan.program.jsonl"});
  INFO(exported.err);
  REQUIRE(exported.exit_code == 0);
  const Printed run = shardsim({"run", folder / "plan.json", "--json", "-q"});
  const Printed replay = shardsim(
      {"replay", folder / "plan.program.jsonl", "--system", folder / "plan.json", "--json", "-q"});
  INFO(replay.err);
  REQUIRE(replay.exit_code == 0);
  const nlohmann::json found = nlohmann::json::parse(replay.out);
  const nlohmann::json expected = nlohmann::json::parse(run.out);
  CHECK(Time::from_picoseconds(found["step_time_ps"]).seconds() ==
        expected["metrics"]["step_time_s"]);
  CHECK(found["memory_peak_bytes"] == expected["metrics"]["memory.peak_bytes.max"]);
  const Printed text = shardsim({"replay", folder / "plan.program.jsonl", "-q"});
  CHECK(contains(text.out, "2 programs of 16 ranks on 2 x 8 "));
  CHECK(contains(text.out, "computing is 100.0 % priced by the machine, 0.0 % as recorded"));
}

TEST_CASE("a run with real tensors has no programs, and the error says what has") {
  const TemporaryFolder folder;
  const Printed refused = shardsim({"export", "program", "scenarios/verify-gpt-tp4.json"});
  CHECK(refused.exit_code == 2);
  CHECK(contains(refused.err, "E1377"));
  CHECK(contains(refused.err, "--set execution.tensors=meta"));
}

}  // namespace shardsim::test
