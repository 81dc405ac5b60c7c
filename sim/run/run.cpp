#include "sim/run/run.hpp"

#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/engine.hpp"
#include "sim/kernel/error.hpp"

#include "backends/replay/equal_ranks.hpp"

#include "sim/experiment/assumptions.hpp"
#include "sim/run/band/error_band.hpp"
#include "sim/run/decision_file.hpp"
#include "sim/run/detail/detail_of.hpp"
#include "sim/run/device_memory.hpp"
#include "sim/run/draws/fault_draws.hpp"
#include "sim/run/metrics.hpp"
#include "sim/run/rank_programs.hpp"
#include "sim/run/state/state_dump.hpp"
#include "sim/run/whole_training.hpp"
#include "sim/verify/oracle.hpp"

namespace shardsim {

namespace {

constexpr const char* kSkippedLast =
    "the last step was skipped, as gradients overflowed: its times, which are those reported, are "
    "without norm, update and gathers; use more steps or a smaller training.loss_scale";

void add_warnings(std::vector<std::string> warnings, Result& result) {
  std::move(warnings.begin(), warnings.end(), std::back_inserter(result.warnings));
}

// A run that replays a record depends on that, too.
Assumptions assumptions_with(const Experiment& experiment, const DecisionLog* replay) {
  if (replay == nullptr) return experiment.assumptions();
  const Assumptions replayed = replayed_assumptions(*replay, experiment);
  return assumptions_of(experiment, &replayed);
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

std::vector<RankTrace> take_traces(World& world, const std::vector<int>& ranks) {
  std::vector<RankTrace> traces;
  for (const int rank : ranks) {
    RankTrace& trace = *world.rank(rank).trace();
    const Cluster& cluster = world.cluster();
    trace.name += " (node " + std::to_string(cluster.node_of(rank)) + ", gpu " +
                  std::to_string(rank % cluster.gpus_per_node) + ")";
    traces.push_back(std::move(trace));
  }
  return traces;
}

// The verdict: the exit code of the gravest failure.
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

FiberOptions world_options(const Experiment& experiment, const RunHooks& hooks, const Fold* fold) {
  FiberOptions options = experiment.world();
  const OutputSpec& output = experiment.scenario().output;
  if (!output.trace.empty()) {
    options.traced_ranks.assign(output.trace_ranks.begin(), output.trace_ranks.end());
  }
  options.interleaving_seed = hooks.schedule.seed;
  if (hooks.schedule.sends == SendMode::buffered) options.buffered_sends = true;
  if (hooks.schedule.sends == SendMode::drawn) options.drawn_sends = hooks.schedule.seed;
  options.draw_launches = true;
  options.watch = hooks.watch;
  options.on_progress = hooks.on_progress;
  options.fold = fold;
  return options;
}

// Marks the host's times as read if a device waited for the host. If operations follow others, the
// host may be waited for without that.
void note_host_times(const Experiment& experiment, const World& world) {
  bool waits = experiment.mesh().dp_replicate > 1 || experiment.mesh().cp > 1;
  for (const int rank : world.running()) waits |= world.rank(rank).split().host > Time();
  if (!waits) return;
  const Device& device = experiment.cluster().device;
  for (const Tracked<double>& time : {device.host_s_per_kernel, device.host_s_per_call}) {
    [[maybe_unused]] const double read = time;
  }
}

// The figures of ranks that have all come to their end.
struct Ended {
  const World& world;
  const FiberOptions& options;
  const DeviceMemory& memory;
  const RunRecord& record;
  const Verification* oracle;  // Null in a plan.
  const DecisionLog* decisions;
  const RankPrograms* programs;  // Null: the ranks ran.
};

void draw(const Experiment& experiment, const RunHooks& hooks, const RankPrograms* programs,
          Result& result) {
  if (experiment.scenario().faults.draws.count == 0) return;
  const ReadLog::Scope decides_nothing(nullptr);  // As on other threads.
  const double step_s = result.number(metric::kStepTimeS).value_or(0.0);
  add_draws(experiment, draw_faults(experiment, hooks, programs, step_s), result.metrics);
}

void report(const Experiment& experiment, const RunHooks& hooks, const Ended& ended,
            RunOutcome& outcome) {
  const Scenario& scenario = experiment.scenario();
  Result& result = outcome.result;
  note_host_times(experiment, ended.world);
  result.metrics = metrics_of(experiment, ended.world, ended.memory, ended.record, ended.oracle);
  outcome.fullest_memory = memory_of_the_fullest(ended.world);
  add_cost(experiment, result);
  draw(experiment, hooks, ended.programs, result);
  add_warnings(fault_warnings(scenario.faults, result), result);
  if (hooks.detail || scenario.output.wants_detail()) {
    const ReadLog::Scope decides_nothing(nullptr);
    outcome.detail = detail_of({.experiment = experiment,
                                .hooks = hooks,
                                .world = ended.world,
                                .options = ended.options,
                                .record = ended.record,
                                .result = result,
                                .decisions = ended.decisions});
  }
  result.checks.push_back(conservation_check(ended.world));
  result.checks.push_back(ended.memory.check());
  if (ended.oracle != nullptr) result.checks.push_back(oracle_check(*ended.oracle));
  result.expectations = judge(scenario.expect, result);
  if (ended.record.last_step_skipped()) result.warnings.emplace_back(kSkippedLast);
  add_warnings(ended.memory.warnings(), result);
}

void run_by_fibers(const Experiment& experiment, const RunHooks& hooks, const Fold* fold,
                   RunOutcome& outcome) {
  const Scenario& scenario = experiment.scenario();
  const ParallelPlan& plan = experiment.plan();
  const bool has_data = experiment.world().has_data;
  std::optional<Verification> oracle;
  if (has_data) oracle.emplace(experiment, hooks.on_progress);
  FiberOptions options = world_options(experiment, hooks, fold);
  DecisionLog decisions(static_cast<int>(scenario.system.ranks));
  std::optional<DecisionReplay> replay;
  if (hooks.replay != nullptr) replay.emplace(*hooks.replay);
  options.record = &decisions;
  options.replay = replay ? &*replay : nullptr;
  FiberWorld world(std::move(options));
  DeviceMemory memory(world, experiment, rank_kinds(experiment, fold));
  RunRecord record(world, scenario.execution.steps,
                   oracle ? oracle->oracles() : std::vector<Oracle*>(),
                   has_data || hooks.replay != nullptr);
  std::optional<StateDump> dump;
  if (oracle && hooks.write_state) dump.emplace(plan, hooks.write_state);
  try {
    world.run([&](Runtime& runtime, Communicator& everyone) {
      run_rank(plan, hooks, {record, dump ? &*dump : nullptr}, runtime, everyone);
    });
    if (oracle) oracle->finish();
    if (replay) replay->finish();
    report(experiment, hooks,
           {.world = world,
            .options = world.options(),
            .memory = memory,
            .record = record,
            .oracle = oracle ? &*oracle : nullptr,
            .decisions = oracle ? &decisions : hooks.replay,
            .programs = nullptr},
           outcome);
    if (oracle) outcome.decisions = std::move(decisions);
  } catch (const CommunicationError& error) {
    outcome.result.diagnosis = error.diagnosis();
  }
  for (const Diagnosis& warning : world.warnings()) {
    outcome.result.warnings.push_back(warning.code + ": " + warning.summary);
  }
  outcome.traces = take_traces(world, world.options().traced_ranks);
}

// --- Replay ------------------------------------------------------------------------------------

void replay_programs(const Experiment& experiment, const RunHooks& hooks, const Fold* fold,
                     const RankPrograms& programs, RunOutcome& outcome) {
  const FiberOptions options = world_options(experiment, hooks, fold);
  RunRecord* record = nullptr;  // Made of the world.
  std::optional<Fold> shared;   // A traced rank is like no other.
  if (fold == nullptr) {
    shared = share_equal_ranks(
        groups_of(programs, options.cluster),
        kinds_of(programs, options.cluster.faults.get(), options.traced_ranks), true);
  }
  ReplayWorld world(
      {.cluster = options.cluster,
       .all_reduce_algorithm = options.all_reduce_algorithm,
       .buffered_sends = options.buffered_sends,
       .traced_ranks = options.traced_ranks,
       .fold = shared ? &*shared : fold,
       .hashes_all = shared.has_value(),
       .on_mark = [&](int rank, const ProgramMark& mark) { record->note(rank, mark); },
       .on_progress = hooks.on_progress},
      programs);
  DeviceMemory memory(
      world, experiment,
      fold == nullptr ? rank_kinds(experiment, programs.of_rank) : rank_kinds(experiment, fold));
  RunRecord made(world, experiment.scenario().execution.steps, {}, false);
  record = &made;
  world.run();
  report(experiment, hooks,
         {.world = world,
          .options = options,
          .memory = memory,
          .record = made,
          .oracle = nullptr,
          .decisions = nullptr,
          .programs = &programs},
         outcome);
  outcome.traces = take_traces(world, options.traced_ranks);
  outcome.texts = programs.programs.front().tables;
}

// Replays the ranks' programs if that gives what a run would give. Returns why it does not, as the
// end of a sentence, and leaves `outcome` as it is then; "" if it has.
std::string try_replay(const Experiment& experiment, const RunHooks& hooks, const Fold* fold,
                       RunOutcome& outcome) {
  RankRecording recording;
  try {
    recording = record_ranks(experiment, hooks, fold);
  } catch (const Error& error) {
    return error.what();  // The run reports it with its rank.
  }
  if (!recording.programs) return recording.obstacle;
  try {
    if (hooks.edit_programs) hooks.edit_programs(*recording.programs);
    RunOutcome replayed = outcome;
    replay_programs(experiment, hooks, fold, *recording.programs, replayed);
    outcome = std::move(replayed);
    return "";
  } catch (const ReplayEnded& ended) {
    return ended.reason;
  } catch (const Error& error) {
    // No code of a rank runs here: an internal error is the replay's own, and must be seen.
    if (error.exit_code() == ExitCode::internal) throw;
    return error.what();
  }
}

void require_few_enough(int running, std::int64_t ranks, const std::string& why) {
  if (running <= Engine::kMaxRanks) return;
  throw LimitError("E0311",
                   fmt::format("{} of {} ranks would have to run, as {}; at most {} can", running,
                               ranks, why, Engine::kMaxRanks),
                   "use fewer nodes, or remove what makes ranks differ");
}

// Replays, or else runs, all ranks, or those that represent the others.
void run_plan(const Experiment& experiment, const RunHooks& hooks, const Fold* fold,
              RunOutcome& outcome) {
  const std::string& engine = experiment.scenario().execution.engine;
  const auto ranks = static_cast<int>(experiment.scenario().system.ranks);
  std::string obstacle = "execution.engine is \"run\"";
  if (engine != "run") {
    obstacle = try_replay(experiment, hooks, fold, outcome);
    if (obstacle.empty()) return;
    if (engine == "replay") {
      throw LimitError("E0312", "execution.engine is \"replay\", but " + obstacle,
                       "use execution.engine \"auto\", which then runs every rank");
    }
  }
  if (experiment.scenario().faults.draws.changes_steps()) {
    throw LimitError("E0313", "draws of faults are replayed, but " + obstacle,
                     "remove faults.draws, or what stands against replay");
  }
  if (fold == nullptr) require_few_enough(ranks, ranks, obstacle);
  run_by_fibers(experiment, hooks, fold, outcome);
}

// A caller's addition that may make ranks differ comes first; it adds nothing to real tensors.
std::string obstacle_of(const Experiment& experiment, const RunHooks& hooks) {
  const bool is_plan = !experiment.world().has_data;
  if (is_plan && hooks.replay != nullptr) return "replayed decisions are those of each rank";
  if (is_plan && hooks.wrap_world) return "something stands between the ranks and the network";
  if (experiment.scenario().faults.draws.changes_steps()) return "draws make ranks differ";
  return experiment.folding().obstacle;
}

// The experiment's fold; null: all ranks run, because of execution.fold or `hooks`. `result` gets a
// note on the fold, or on why there is none.
const Fold* choose_fold(const Experiment& experiment, const RunHooks& hooks, Result& result) {
  const ExecutionSpec& execution = experiment.scenario().execution;
  const std::int64_t ranks = experiment.scenario().system.ranks;
  const bool draws = experiment.scenario().faults.draws.changes_steps();
  if (execution.fold == "off" || (draws && execution.fold == "auto")) return nullptr;
  const std::string obstacle = obstacle_of(experiment, hooks);
  if (obstacle.empty()) {
    const Fold& fold = *experiment.folding().fold;
    require_few_enough(static_cast<int>(fold.running.size()), ranks,
                       "replicas own different shards");
    result.assumptions.push_back(
        {fmt::format("{} of {} ranks were run; the others do the same as one of these, and are "
                     "counted with it",
                     static_cast<int>(fold.running.size()), ranks),
         "exact, as all nodes and links are alike: docs/decisions/0035-folding.md"});
    return &fold;
  }
  if (execution.fold == "require") {
    throw LimitError("E0310", "execution.fold is \"require\", but " + obstacle,
                     "use execution.fold \"auto\", which then runs every rank");
  }
  if (execution.engine == "run") require_few_enough(static_cast<int>(ranks), ranks, obstacle);
  result.warnings.push_back("execution.fold is auto, but every rank was run: " + obstacle);
  return nullptr;
}

void require_replayable(const Experiment& experiment, const RunHooks& hooks) {
  if (hooks.replay == nullptr) return;
  if (experiment.world().has_data) {
    throw UsageError("E0907", "a run with real tensors takes its own decisions and replays none",
                     "use execution.tensors \"meta\", or leave the record out");
  }
  const int ranks = experiment.mesh().size();
  if (hooks.replay->num_ranks() == ranks) return;
  throw UsageError("E0908",
                   "the record of decisions is of " + std::to_string(hooks.replay->num_ranks()) +
                       " ranks, this run has " + std::to_string(ranks),
                   "replay a record of the same scenario");
}

}  // namespace

RunOutcome run_experiment(const Experiment& experiment, const RunHooks& hooks) {
  if (hooks.edit_schedule) {
    RunHooks others = hooks;
    others.edit_schedule = nullptr;
    return run_experiment(compile(experiment.scenario(), hooks.edit_schedule), others);
  }
  const Scenario& scenario = experiment.scenario();
  require_replayable(experiment, hooks);
  RunOutcome outcome;
  Result& result = outcome.result;
  result.scenario_json = scenario.resolved_json;
  result.warnings = scenario.warnings;
  result.assumptions = assumptions_with(experiment, hooks.replay);
  ReadLog reads;
  const ReadLog::Scope noted(&reads);
  try {
    static_cast<void>(experiment.plan());  // Throws for a schedule that cannot run.
    const Fold* const fold = choose_fold(experiment, hooks, result);
    run_plan(experiment, hooks, fold, outcome);
    if (fold != nullptr && result.diagnosis && scenario.system.ranks <= Engine::kMaxRanks) {
      // A report must name all ranks that take part.
      result.diagnosis.reset();
      run_plan(experiment, hooks, nullptr, outcome);
    }
  } catch (const CommunicationError& error) {
    result.diagnosis = error.diagnosis();
  }
  add_error_bands(experiment, result);
  // A run that ended early might have read more.
  if (!result.diagnosis) add_warnings(fields_without_effect(scenario, reads), result);
  settle_exit_code(result);
  return outcome;
}

RunOutcome run_scenario(Scenario scenario, const RunHooks& hooks) {
  return run_experiment(compile(std::move(scenario)), hooks);
}

void settle_exit_code(Result& result) { result.exit_code = static_cast<int>(verdict(result)); }

}  // namespace shardsim
