#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

#include "tests/property/check_property.hpp"
#include "tests/property/expert_layouts.hpp"

// K9: a forward and a backward that take turns train what they train one after the other, in no
// more time, and never in less than the longest of the rank's streams.
namespace shardsim::test {
namespace {

constexpr const char* kTwoStages = "scenarios/verify-llama-ep2-combined-pp2.json";
constexpr const char* kOneStage = "scenarios/verify-llama-ep4-combined.json";

// The same schedule without blocks: its forwards and backwards run one after the other.
RunHooks one_after_the_other() {
  return {.edit_schedule = [](PipelineSchedule& schedule) {
    for (std::vector<Action>& row : schedule.actions) {
      for (Action& action : row) action.overlaps_next = false;
    }
  }};
}

const std::vector<Overrides> kOverlapped = {
    {},
    {"parallelism.expert_dispatch=per_node"},
    {"parallelism.zero_stage=1", "training.recompute=selective", "training.recompute_modules=moe"},
    {"parallelism.zero_stage=2", "training.recompute=full", "model.num_shared_experts=1"},
    {"model.moe_routing=skewed", "parallelism.expert_dispatch=per_node",
     "parallelism.zero_stage=2"}};

const std::vector<Overrides> kBlockSchedules = {{"parallelism.schedule=combined_1f1b"},
                                                {"parallelism.schedule=dualpipe_v"}};

Overrides joined_overrides(const Overrides& a, const Overrides& b) {
  Overrides both = a;
  both.insert(both.end(), b.begin(), b.end());
  return both;
}

}  // namespace

TEST_CASE("K9: turns change no value") {
  for (const Overrides& schedule : kBlockSchedules) {
    for (const Overrides& more : kOverlapped) {
      CAPTURE(schedule, more);
      const Scenario scenario = load_scenario(kTwoStages, joined_overrides(schedule, more));
      const Result turns = run_scenario(scenario).result;
      const Result after = run_scenario(scenario, one_after_the_other()).result;
      CHECK(turns.exit_code == 0);
      CHECK(after.exit_code == 0);
      CHECK_FALSE(*turns.find("trace_hash") == *after.find("trace_hash"));
      // The largest errors against the same numbers are equal to the last bit.
      for (const char* what : {"grads", "params", "optimizer_state", "loss"}) {
        const std::string name = std::string("oracle.max_rel_error.") + what;
        CHECK(*turns.find(name) == *after.find(name));
      }
    }
  }
  const Result alone = run_scenario(load_scenario(kOneStage)).result;
  CHECK(alone.exit_code == 0);
}

// Slow cards, so that tokens take as long as what is computed.
TEST_CASE("K9: turns take less time than one after the other, not less than what is computed") {
  const Overrides plan = {"execution.tensors=meta", "system.nodes=4", "system.gpus_per_node=1",
                          "system.inter_node.bandwidth_gb_per_s=0.05",
                          "training.global_batch_size=64"};
  for (const Overrides& schedule : kBlockSchedules) {
    for (const char* dispatch : {"per_expert", "per_node"}) {
      CAPTURE(schedule, dispatch);
      const Overrides all =
          joined_overrides(joined_overrides(plan, schedule),
                           {std::string("parallelism.expert_dispatch=") + dispatch});
      const Scenario scenario = load_scenario(kTwoStages, all);
      const Result turns = run_scenario(scenario).result;
      const Result after = run_scenario(scenario, one_after_the_other()).result;
      const double together = turns.number("step_time_s").value();
      const double apart = after.number("step_time_s").value();
      CHECK(together < 0.95 * apart);
      CHECK(together > turns.number("time.compute_s").value());
      CHECK(turns.number("time.hidden_comm_s").value() >
            after.number("time.hidden_comm_s").value());
      // As much is sent.
      CHECK(*turns.find("comm.bytes_sent.by_axis.ep") == *after.find("comm.bytes_sent.by_axis.ep"));
    }
  }
}

TEST_CASE("K9: blocks that take turns are recorded and replayed as they run") {
  check_property(6, [] {
    Overrides overrides = *rc::gen::elementOf(kBlockSchedules);
    overrides = joined_overrides(overrides, *rc::gen::elementOf(kOverlapped));
    overrides.emplace_back("execution.tensors=meta");
    const auto hash = [&](const char* engine) {
      const Overrides own =
          joined_overrides(overrides, {std::string("execution.engine=") + engine});
      const Result result = run_scenario(load_scenario(kTwoStages, own)).result;
      return *result.find("trace_hash");
    };
    RC_ASSERT(hash("run") == hash("replay"));
  });
}

TEST_CASE("K9: with sharded weights a block is one after the other") {
  const Scenario scenario =
      load_scenario(kTwoStages, {"parallelism.zero_stage=3", "execution.steps=1"});
  const Result turns = run_scenario(scenario).result;
  CHECK(turns.exit_code == 0);
  // A block waits for both messages before it begins, so it may only be slower.
  CHECK(turns.number("step_time_s").value() >=
        run_scenario(scenario, one_after_the_other()).result.number("step_time_s").value());
  const auto is_told = [&](const char* words) {
    return std::any_of(turns.assumptions.begin(), turns.assumptions.end(), [&](const auto& each) {
      return each.text.find(words) != std::string::npos;
    });
  };
  CHECK(is_told("take as long as one after the other"));
  CHECK_FALSE(is_told("take turns"));
}

}  // namespace shardsim::test
