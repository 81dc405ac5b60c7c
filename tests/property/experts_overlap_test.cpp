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
constexpr const char* kDelayedScales = "scenarios/verify-llama-delayed-ep2-combined-pp2.json";
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

Result block_result(const char* file, const Overrides& overrides, bool holds_back,
                    const RunHooks& hooks = {}) {
  Overrides all = overrides;
  if (holds_back) all.emplace_back("parallelism.delay_weight_gradients=true");
  return run_scenario(load_scenario(file, all), hooks).result;
}

// With gradients of weights held back and without.
void check_held_back(const char* file, const Overrides& overrides) {
  CAPTURE(file, overrides);
  const Result held = block_result(file, overrides, true);
  const Result at_once = block_result(file, overrides, false);
  CHECK(held.exit_code == 0);
  CHECK(at_once.exit_code == 0);
  CHECK(held.warnings.empty());
  CHECK_FALSE(*held.find("trace_hash") == *at_once.find("trace_hash"));
  for (const char* what : {"grads", "params", "optimizer_state", "loss"}) {
    const std::string name = std::string("oracle.max_rel_error.") + what;
    CHECK(*held.find(name) == *at_once.find(name));
  }
  CHECK(*held.find("comm.bytes_sent.total") == *at_once.find("comm.bytes_sent.total"));
  CHECK(held.number("memory.peak_bytes.max").value() >=
        at_once.number("memory.peak_bytes.max").value());
}

// Slow cards, so that tokens take as long as what is computed.
const Overrides kSlowCards = {"execution.tensors=meta", "system.nodes=4", "system.gpus_per_node=1",
                              "system.inter_node.bandwidth_gb_per_s=0.05",
                              "training.global_batch_size=64"};

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

TEST_CASE("K9: turns take less time than one after the other, not less than what is computed") {
  for (const Overrides& schedule : kBlockSchedules) {
    for (const char* dispatch : {"per_expert", "per_node"}) {
      CAPTURE(schedule, dispatch);
      const Overrides all =
          joined_overrides(joined_overrides(kSlowCards, schedule),
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
    if (*rc::gen::arbitrary<bool>()) {
      overrides.emplace_back("parallelism.delay_weight_gradients=true");
    }
    const auto hash = [&](const char* engine) {
      const Overrides own =
          joined_overrides(overrides, {std::string("execution.engine=") + engine});
      const Result result = run_scenario(load_scenario(kTwoStages, own)).result;
      return *result.find("trace_hash");
    };
    RC_ASSERT(hash("run") == hash("replay"));
  });
}

TEST_CASE("K9: gradients of weights that are held back are the same") {
  for (const Overrides& schedule : kBlockSchedules) {
    for (const Overrides& more : kOverlapped) {
      check_held_back(kTwoStages, joined_overrides(schedule, more));
    }
  }
  check_held_back(kOneStage, {"parallelism.overlap_grad_reduce=false"});
  check_held_back(kOneStage, {"parallelism.zero_stage=2", "training.global_batch_size=32",
                              "parallelism.sync_every_microbatch=false"});
  check_held_back(kTwoStages, {"parallelism.offload_layers=1", "parallelism.offload_min_elements=1",
                               "system.device.host_bandwidth_gb_per_s=10"});
  for (const char* recompute : {"none", "full"}) {
    check_held_back(kTwoStages, {"parallelism.tp=2", "parallelism.sequence_parallel=true",
                                 "system.gpus_per_node=8", "parallelism.ep=4",
                                 std::string("training.recompute=") + recompute});
  }
  check_held_back(kDelayedScales, {});
  check_held_back(kDelayedScales, {"training.amax_update=step", "training.recompute=full"});
}

// With the slowest cards tokens travel all the time, and nothing can be gained.
TEST_CASE("K9: gradients of weights fill what tokens leave idle") {
  for (const Overrides& schedule : kBlockSchedules) {
    for (const char* dispatch : {"per_expert", "per_node"}) {
      for (const char* bandwidth : {"0.05", "0.2", "2"}) {
        CAPTURE(schedule, dispatch, bandwidth);
        Overrides all = joined_overrides(kSlowCards, schedule);
        all.push_back(std::string("parallelism.expert_dispatch=") + dispatch);
        all.push_back(std::string("system.inter_node.bandwidth_gb_per_s=") + bandwidth);
        const Result held = block_result(kTwoStages, all, true);
        const Result at_once = block_result(kTwoStages, all, false);
        const Result after = block_result(kTwoStages, all, true, one_after_the_other());
        const double time = held.number("step_time_s").value();
        CHECK(time <= at_once.number("step_time_s").value());
        CHECK(time < after.number("step_time_s").value());
        CHECK(time > held.number("time.compute_s").value());
        CHECK(*held.find("time.compute_s") == *at_once.find("time.compute_s"));
        if (bandwidth == std::string("0.2")) {
          CHECK(time < 0.98 * at_once.number("step_time_s").value());
        }
        // Without blocks nothing is held back.
        CHECK(*after.find("trace_hash") ==
              *block_result(kTwoStages, all, false, one_after_the_other()).find("trace_hash"));
      }
    }
  }
}

TEST_CASE("K9: where no block takes turns, gradients of weights follow at once") {
  const Overrides sharded = {"parallelism.zero_stage=3", "execution.steps=1"};
  const Result held = block_result(kTwoStages, sharded, true);
  const Result at_once = block_result(kTwoStages, sharded, false);
  CHECK(held.exit_code == 0);
  CHECK(held.warnings.size() == at_once.warnings.size() + 1);
  CHECK(std::any_of(held.warnings.begin(), held.warnings.end(), [](const auto& warning) {
    return warning.find("parallelism.delay_weight_gradients has no effect here") == 0;
  }));
  CHECK(*held.find("trace_hash") == *at_once.find("trace_hash"));
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
