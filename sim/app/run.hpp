#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "sim/kernel/trace.hpp"

#include "backends/communicator.hpp"
#include "backends/decision_log.hpp"

#include "reports/result.hpp"
#include "reports/run_detail.hpp"
#include "sim/app/state/state_file_writer.hpp"
#include "sim/experiment/experiment.hpp"

#include "sim/harness/schedule.hpp"

// What composes a run: experiment -> one fiber per rank -> trace -> checks -> plain result.
namespace shardsim {

/// What a caller may add to a run. Nothing but `replay` and `schedule` changes what a correct run
/// reports; the latter its times only, and those only where sends are not always rendezvous.
struct RunHooks {
  /// Puts something between the strategies and the network (tests plant bugs this way). Gets the
  /// communicator of all ranks; must outlive none of the run.
  std::function<std::unique_ptr<Communicator>(Communicator& world)> wrap_world;
  /// Runs the experiment with another schedule: it is compiled once more for that. Another shape
  /// is a UsageError.
  ScheduleEdit edit_schedule;
  /// Decisions of a run with data, for a run without. Null: those of a plan.
  const DecisionLog* replay = nullptr;
  /// Called now and then during a long run, also while the oracle computes its reference.
  std::function<void()> on_progress;
  /// What a cluster leaves open; its decisions are not looked at, for strategies have none.
  Schedule schedule;
  /// Looks for buffers that are touched while they are in use, and for calls of several groups in
  /// different orders: a diagnosis, and warnings.
  bool watch = false;
  /// Collects RunOutcome::detail, for which the run is run twice. It is collected, too, where the
  /// scenario asks for a file that shows it.
  bool detail = false;
  /// Gets the state files of a run with data (state_dump.hpp), each as soon as it is complete.
  /// Empty: no files.
  StateFileWriter write_state;
};

struct RunOutcome {
  Result result;
  std::vector<RankTrace> traces;    ///< Of the ranks the scenario asks for; empty without a trace.
  std::optional<RunDetail> detail;  ///< Where it was asked for, of a run that came to its end.
  /// Of a run with data that came to its end.
  std::optional<DecisionLog> decisions;
};

/// Never throws for what the run finds (a failed check, a deadlock, too little memory): that is in
/// the result, with its exit code. Throws LimitError and UsageError for what cannot be run at all.
[[nodiscard]] RunOutcome run_experiment(const Experiment& experiment, const RunHooks& hooks = {});

/// The same for a scenario that is run once: compiles it first.
[[nodiscard]] RunOutcome run_scenario(Scenario scenario, const RunHooks& hooks = {});

/// What is wrong first, in the order of the exit codes' gravity.
void settle_exit_code(Result& result);

}  // namespace shardsim
