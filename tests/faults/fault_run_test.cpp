#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/app/folding_fixture.hpp"

// Runs with faults: values stay, times grow, and nothing changes where nothing is wrong.
namespace shardsim::test {
namespace {

using Overrides = std::vector<std::string>;

const char* const kStraggler = R"(faults.stragglers=[{"rank": 1, "slowdown": 1.75}])";
const char* const kSlow = R"(faults.slow_links=[{"tier": "intra_node", "bandwidth_factor": 0.3}])";
const char* const kFlaps =
    R"(faults.flapping_links=[{"tier": "intra_node", "down_s": 1e-5, "period_s": 5e-5}])";

Result run_with(const std::string& file, const Overrides& overrides) {
  return run_scenario(load_scenario(file, overrides)).result;
}

std::string hash_of(const Result& result) {
  return std::get<std::string>(*result.find("trace_hash"));
}

std::string small_hash(Overrides overrides) {
  overrides.emplace_back("parallelism.pp=2");
  return hash_of(planned(small_plan("llama"), overrides, "off"));
}

}  // namespace

TEST_CASE("what a faulty plan's numbers do not say is a warning") {
  const auto warned = [](const Overrides& overrides, const std::string& words) {
    const std::vector<std::string> warnings =
        planned(small_plan("llama"), overrides, "off").warnings;
    return std::any_of(warnings.begin(), warnings.end(),
                       [&](const std::string& warning) { return contains(warning, words); });
  };
  const std::string rare =
      R"(faults.flapping_links=[{"tier": "intra_node", "down_s": 0.5, "period_s": 60}])";
  CHECK(warned({rare}, "links flap every 60"));
  CHECK_FALSE(warned({kStraggler}, "links flap"));
  const Overrides failing = {"faults.gpu_mtbf_hours=0.001", "faults.restart_s=600",
                             "faults.checkpoint_write_s=60"};
  CHECK(warned(failing, "practically never ends"));
  const Overrides frequent = {"faults.gpu_mtbf_hours=50000", "faults.restart_s=600",
                              "faults.checkpoint_write_s=1", "faults.checkpoint_interval_s=1e-9"};
  CHECK(warned(frequent, "less than a step"));
  CHECK_FALSE(warned(
      {"faults.gpu_mtbf_hours=50000", "faults.restart_s=600", "faults.checkpoint_write_s=60"},
      "goodput"));
}

TEST_CASE("where nothing is wrong every operation is as it was") {
  const std::string healthy = small_hash({});
  CHECK(small_hash({"faults={}"}) == healthy);
  CHECK(small_hash({R"(faults.stragglers=[{"node": 1, "slowdown": 1}])"}) == healthy);
  CHECK(small_hash({R"(faults.slow_links=[{"node": 1, "bandwidth_factor": 1}])"}) == healthy);
  // The first outage comes after the end.
  CHECK(small_hash({R"(faults.flapping_links=[{"node": 1, "down_s": 1, "period_s": 2,
                       "phase_s": 1000}])"}) == healthy);
  CHECK(small_hash({"faults.gpu_mtbf_hours=100", "faults.checkpoint_write_s=1",
                    "faults.restart_s=1"}) == healthy);
  CHECK(small_hash({R"(faults.stragglers=[{"node": 1, "slowdown": 1.01}])"}) != healthy);
  CHECK(small_hash({R"(faults.slow_links=[{"node": 1, "bandwidth_factor": 0.99}])"}) != healthy);
  CHECK(small_hash({R"(faults.flapping_links=[{"node": 1, "down_s": 1e-6, "period_s": 1e-3}])"}) !=
        healthy);
}

TEST_CASE("faults change times and no number that is trained") {
  for (const std::string file :
       {"scenarios/verify-gpt-tp2-pp2-dp2-zero1.json", "scenarios/verify-llama-zero3.json"}) {
    INFO(file);
    const Result healthy = run_with(file, {});
    const Result faulty = run_with(file, {kStraggler, kSlow, kFlaps});
    CHECK(faulty.exit_code == 0);
    CHECK(hash_of(faulty) != hash_of(healthy));
    CHECK(*faulty.number("step_time_s") > *healthy.number("step_time_s"));
    for (const char* name :
         {"oracle.passed", "oracle.max_rel_error.grads", "oracle.max_rel_error.params",
          "oracle.max_rel_error.loss", "memory.peak_bytes.max", "comm.bytes_sent.total"}) {
      INFO(name);
      CHECK(faulty.number(name) == healthy.number(name));
    }
  }
}

TEST_CASE("L3 with faults: shapes alone give the same trace") {
  for (const std::string file :
       {"scenarios/verify-gpt-tp2-pp2-dp2-zero1.json", "scenarios/verify-gpt-pp4-1f1b.json",
        "scenarios/verify-llama-cp4-two-level.json"}) {
    INFO(file);
    const Overrides faults = {kStraggler, kSlow, kFlaps};
    Overrides shapes = faults;
    shapes.emplace_back("execution.tensors=meta");
    CHECK(hash_of(run_with(file, faults)) == hash_of(run_with(file, shapes)));
  }
}

TEST_CASE("faults hold for buffered sends, too") {
  const Overrides buffered = {"parallelism.pp=2", "execution.buffered_sends=true"};
  const auto step = [&](const Overrides& faults) {
    Overrides all = buffered;
    all.insert(all.end(), faults.begin(), faults.end());
    return *planned(small_plan("llama"), all, "off").number("step_time_s");
  };
  CHECK(step({R"(faults.slow_links=[{"tier": "inter_node", "bandwidth_factor": 0.1}])"}) >
        step({}));
  CHECK(step({R"(faults.flapping_links=[{"tier": "inter_node", "down_s": 1e-4,
                 "period_s": 2e-4}])"}) > step({}));
}

TEST_CASE("a result says which faults it has, and has no band of healthy machines") {
  const Scenario scenario = load_scenario("scenarios/gpt3-175b-1024xa100.json",
                                          {"system.nodes=8", "training.global_batch_size=8",
                                           R"(faults.stragglers=[{"node": 3, "slowdown": 1.1}])"});
  const Result result = run_scenario(scenario).result;
  CHECK(result.error_bands.empty());
  CHECK(contains(result.no_error_band, "faults are told"));
  const bool is_told = std::any_of(
      result.assumptions.begin(), result.assumptions.end(),
      [](const Assumption& assumption) { return contains(assumption.text, "1 straggler;"); });
  CHECK(is_told);
  const Printed printed = shardsim({kPlan, "--set", R"(faults.stragglers=[{"node": 3,
                                    "slowdown": 1.1}])"});
  CHECK(contains(printed.out, "1 straggler"));
}

}  // namespace shardsim::test
