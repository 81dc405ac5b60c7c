#include "tests/detail/detail_fixture.hpp"

#include <algorithm>
#include <cmath>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"

namespace shardsim::test {

const StageTime& DetailedRun::last_stage_to_end() const {
  const auto found =
      std::find_if(detail.stages.begin(), detail.stages.end(), [&](const StageTime& stage) {
        return stage.compute_s == metric("time.compute_s") &&
               stage.exposed_comm_s == metric("time.exposed_comm_s") &&
               stage.bubble_s == metric("time.bubble_s") && stage.host_s == metric("time.host_s");
      });
  REQUIRE(found != detail.stages.end());
  return *found;
}

DetailedRun detailed(const std::string& path, const std::vector<std::string>& overrides) {
  RunHooks hooks;
  hooks.detail = true;
  DetailedRun run{
      .name = path, .scenario = load_scenario(path, overrides), .result = {}, .detail = {}};
  for (const std::string& change : overrides) run.name += " " + change;
  RunOutcome outcome = run_scenario(run.scenario, hooks);
  INFO(run.name);
  REQUIRE(outcome.detail.has_value());
  run.result = std::move(outcome.result);
  run.detail = std::move(*outcome.detail);
  return run;
}

const std::vector<DetailedRun>& detailed_runs() {
  static const std::vector<DetailedRun> kRuns = [] {
    std::vector<DetailedRun> runs;
    for (const char* name :
         {"gpt-ddp", "gpt-zero3", "gpt-hsdp", "gpt-tp2-pp2-dp2-zero1", "gpt-pp4-zb-v",
          "gpt-pp2-fsdp4", "llama-tp2-pp2-dp2-interleaved", "llama-pp2-dp2-dualpipe-v",
          "gpt-cp4-ring", "gpt-cp4-ulysses", "llama-ep4-skewed", "llama-ep4-learned",
          "llama-ep2-pp2-dp2", "llama-tp2-cp2-pp2-dp4-ep2", "gpt-tp2-pp2-dp2-fp16",
          "gpt-zero2-offload", "llama-diloco", "llama-elastic", "llama-async-sgd"}) {
      runs.push_back(detailed(std::string("scenarios/verify-") + name + ".json"));
    }
    const std::string plan = "scenarios/gpt2-xl-zero2-32xa100.json";
    runs.push_back(detailed(plan));
    runs.push_back(detailed(plan, {"execution.fold=require"}));
    runs.push_back(detailed(plan, {"execution.fold=require", "parallelism.zero_stage=1",
                                   "parallelism.pp=2", "training.num_microbatches=8"}));
    return runs;
  }();
  return kRuns;
}

std::int64_t picoseconds(double seconds) {
  constexpr double kPerSecond = 1e12;
  return std::llround(seconds * kPerSecond);
}

}  // namespace shardsim::test
