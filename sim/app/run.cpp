#include "sim/app/run.hpp"

#include <optional>
#include <string>
#include <utility>

#include "sim/kernel/error.hpp"

#include "sim/app/assumptions.hpp"
#include "sim/app/band/band_of_run.hpp"
#include "sim/app/detail/detail_of.hpp"
#include "sim/app/device_memory.hpp"
#include "sim/app/faults/fault_warnings.hpp"
#include "sim/app/folding.hpp"
#include "sim/app/metrics.hpp"
#include "sim/app/plan_of.hpp"
#include "sim/app/state/state_dump.hpp"
#include "sim/app/training_cost.hpp"
#include "sim/app/verification.hpp"
#include "sim/app/without_effect.hpp"

namespace shardsim {

namespace {

constexpr const char* kSkippedLast =
    "the last step was skipped, as gradients overflowed: its times, which are those reported, are "
    "without norm, update and gathers; use more steps or a smaller training.loss_scale";

std::vector<int> traced_ranks_of(const Scenario& scenario) {
  if (scenario.output.trace.empty()) return {};
  return {scenario.output.trace_ranks.begin(), scenario.output.trace_ranks.end()};
}

std::optional<Verification> verification_of(const Scenario& scenario, const ParallelPlan& plan,
                                            const std::function<void()>& on_progress) {
  if (scenario.execution.tensors != TensorMode::real) return std::nullopt;
  return std::make_optional<Verification>(scenario, plan, on_progress);
}

// Objects that the ranks of a run share and report to.
struct Listeners {
  RunRecord& record;
  StateDump* dump;  // Null: no dump was requested.
};

void run_rank(const ParallelPlan& plan, const RunHooks& hooks, const Listeners& listeners,
              Runtime& runtime, Communicator& everyone) {
  std::unique_ptr<Communicator> wrapped;
  if (hooks.wrap_world) wrapped = hooks.wrap_world(everyone);
  Mesh mesh(wrapped ? *wrapped : everyone, plan.options().mesh);
  const Oracle::Holder holder = holder_of(plan, mesh.place());
  RunRecord::Observer observer(listeners.record, holder);
  if (listeners.dump == nullptr) return plan.train_rank(runtime, mesh, observer);
  StateDump::Observer dumped(*listeners.dump, holder, observer);
  plan.train_rank(runtime, mesh, dumped);
}

std::vector<RankTrace> take_traces(FiberWorld& world) {
  std::vector<RankTrace> traces;
  for (const int rank : world.options().traced_ranks) {
    RankTrace& trace = *world.engine().rank(rank).trace();
    const Cluster& cluster = world.options().cluster;
    trace.name += " (node " + std::to_string(cluster.node_of(rank)) + ", gpu " +
                  std::to_string(rank % cluster.gpus_per_node) + ")";
    traces.push_back(std::move(trace));
  }
  return traces;
}

// The verdict: what is wrong first, in the order of the exit codes' gravity.
ExitCode verdict(const Result& result) {
  if (result.diagnosis) return ExitCode::communication;
  bool failed = false;
  for (const Check& check : result.checks) {
    if (check.passed) continue;
    if (check.name == "memory") return ExitCode::does_not_fit;
    failed = true;
  }
  for (const ExpectationResult& expectation : result.expectations) failed |= !expectation.passed;
  return failed ? ExitCode::check_failed : ExitCode::ok;
}

ParallelOptions edited_options(const Scenario& scenario, const RunHooks& hooks) {
  ParallelOptions options = parallel_options_of(scenario);
  if (hooks.edit_schedule) {
    if (!options.own_schedule) {
      options.own_schedule = make_schedule(options.schedule, shape_of(options));
    }
    hooks.edit_schedule(*options.own_schedule);
  }
  return options;
}

FiberOptions world_options(const Scenario& scenario, const RunHooks& hooks, const Fold* fold) {
  FiberOptions options = fiber_options_of(scenario);
  options.traced_ranks = traced_ranks_of(scenario);
  options.interleaving_seed = hooks.schedule.seed;
  if (hooks.schedule.sends == SendMode::buffered) options.buffered_sends = true;
  if (hooks.schedule.sends == SendMode::drawn) options.drawn_sends = hooks.schedule.seed;
  options.draw_launches = true;
  options.watch = hooks.watch;
  options.on_progress = hooks.on_progress;
  options.fold = fold;
  return options;
}

// Marks the host's times as read where a device waited for the host. Where operations follow
// others, the host may be waited for without that.
void note_host_times(const Scenario& scenario, const ParallelPlan& plan, FiberWorld& world) {
  bool waits = plan.options().mesh.dp_replicate > 1 || plan.options().mesh.cp > 1;
  for (int rank = 0; !waits && rank < world.engine().num_ranks(); ++rank) {
    waits = world.engine().rank(rank).split().host > Time();
  }
  if (!waits) return;
  for (const Tracked<double>& time :
       {scenario.system.host_us_per_kernel, scenario.system.host_us_per_call}) {
    [[maybe_unused]] const double read = time;
  }
}

void run_plan(const Scenario& scenario, const ParallelPlan& plan, const RunHooks& hooks,
              const Fold* fold, RunOutcome& outcome) {
  std::optional<Verification> oracle = verification_of(scenario, plan, hooks.on_progress);
  FiberOptions options = world_options(scenario, hooks, fold);
  DecisionLog decisions(static_cast<int>(scenario.system.ranks));
  std::optional<DecisionReplay> replay;
  if (hooks.replay != nullptr) replay.emplace(*hooks.replay);
  options.record = &decisions;
  options.replay = replay ? &*replay : nullptr;
  FiberWorld world(std::move(options));
  DeviceMemory memory(world, scenario, plan);
  RunRecord record(world, scenario.execution.steps,
                   oracle ? oracle->oracles() : std::vector<Oracle*>());
  std::optional<StateDump> dump;
  if (oracle && hooks.write_state) dump.emplace(plan, hooks.write_state);
  Result& result = outcome.result;
  try {
    world.run([&](Runtime& runtime, Communicator& everyone) {
      run_rank(plan, hooks, {record, dump ? &*dump : nullptr}, runtime, everyone);
    });
    note_host_times(scenario, plan, world);
    if (oracle) oracle->finish();
    if (replay) replay->finish();
    result.metrics =
        metrics_of(scenario, plan.whole(), world, memory, record, oracle ? &*oracle : nullptr);
    add_cost(scenario, result);
    for (std::string& warning : fault_warnings(scenario, result)) {
      result.warnings.push_back(std::move(warning));
    }
    if (hooks.detail || scenario.output.wants_detail()) {
      const ReadLog::Scope decides_nothing(nullptr);
      outcome.detail = detail_of({.scenario = scenario,
                                  .plan = plan,
                                  .hooks = hooks,
                                  .options = world_options(scenario, hooks, fold),
                                  .world = world,
                                  .record = record,
                                  .result = result,
                                  .decisions = oracle ? &decisions : hooks.replay});
    }
    result.checks.push_back(conservation_check(world));
    result.checks.push_back(memory.check());
    if (oracle) result.checks.push_back(oracle_check(*oracle));
    result.expectations = judge(scenario.expect, result);
    if (record.last_step_skipped()) result.warnings.emplace_back(kSkippedLast);
    for (std::string& warning : memory.warnings()) {
      result.warnings.push_back(std::move(warning));
    }
    if (oracle) outcome.decisions = std::move(decisions);
  } catch (const CommunicationError& error) {
    result.diagnosis = error.diagnosis();
  }
  for (const Diagnosis& warning : world.warnings()) {
    result.warnings.push_back(warning.code + ": " + warning.summary);
  }
  outcome.traces = take_traces(world);
}

void require_replayable(const Scenario& scenario, const RunHooks& hooks) {
  if (hooks.replay == nullptr) return;
  if (scenario.execution.tensors == TensorMode::real) {
    throw UsageError("E0907", "a run with real tensors takes its own decisions and replays none",
                     "use execution.tensors \"meta\", or leave the record out");
  }
  if (hooks.replay->num_ranks() == scenario.system.ranks) return;
  throw UsageError("E0908",
                   "the record of decisions is of " + std::to_string(hooks.replay->num_ranks()) +
                       " ranks, this run has " + std::to_string(scenario.system.ranks),
                   "replay a record of the same scenario");
}

}  // namespace

RunOutcome run_scenario(const Scenario& scenario, const RunHooks& hooks) {
  require_replayable(scenario, hooks);
  RunOutcome outcome;
  Result& result = outcome.result;
  result.scenario_json = scenario.resolved_json;
  result.warnings = scenario.warnings;
  result.assumptions = assumptions_of(scenario, hooks.replay);
  ReadLog reads;
  const ReadLog::Scope noted(&reads);
  try {
    const SharedPlan shared(scenario.training, edited_options(scenario, hooks));
    const std::optional<Fold> fold = choose_fold(scenario, shared.parallel, hooks, result);
    run_plan(scenario, shared.parallel, hooks, fold ? &*fold : nullptr, outcome);
    if (fold && result.diagnosis && scenario.system.ranks <= Engine::kMaxRanks) {
      // A report is to name all ranks that take part.
      result.diagnosis.reset();
      run_plan(scenario, shared.parallel, hooks, nullptr, outcome);
    }
  } catch (const CommunicationError& error) {
    result.diagnosis = error.diagnosis();  // A schedule that cannot run.
  }
  add_error_bands(scenario, result);
  // A run that ended early might have read more.
  if (!result.diagnosis) {
    for (std::string& warning : fields_without_effect(scenario, reads)) {
      result.warnings.push_back(std::move(warning));
    }
  }
  settle_exit_code(result);
  return outcome;
}

void settle_exit_code(Result& result) { result.exit_code = static_cast<int>(verdict(result)); }

}  // namespace shardsim
