#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/kernel/memory_ledger.hpp"
#include "sim/kernel/trace.hpp"

#include "backends/communicator.hpp"
#include "backends/decision_log.hpp"
#include "backends/program/program.hpp"

#include "reports/result.hpp"
#include "reports/run_detail.hpp"
#include "sim/experiment/experiment.hpp"

#include "sim/harness/schedule.hpp"

// The composition of a run: experiment -> one fiber per rank -> trace -> checks -> plain result.
namespace shardsim {

struct RankPrograms;

/// Gets each file of a state dump (state_dump.hpp) by its name, when all ranks that hold a part of
/// it have shown theirs.
using StateFileWriter = std::function<void(const std::string& name, const std::string& bytes)>;

/// A caller's additions to a run. Only `replay` and `schedule` change the report of a correct run;
/// the latter changes only times, and only if sends are not always rendezvous.
struct RunHooks {
  /// Puts a layer between the strategies and the network (tests plant bugs this way). It gets the
  /// communicator of all ranks, and must not outlive the run.
  std::function<std::unique_ptr<Communicator>(Communicator& world)> wrap_world;
  /// Changes the recorded programs of a replay (tests plant differences this way).
  std::function<void(RankPrograms& programs)> edit_programs;
  /// Runs the experiment with another schedule: it is compiled once more for that. Another shape
  /// is a UsageError.
  ScheduleEdit edit_schedule;
  /// Decisions of a run with data, for a run without. Null: those of a plan.
  const DecisionLog* replay = nullptr;
  /// Does independent work for each index of [0, count), on several threads. Null: one by one.
  std::function<void(std::size_t count, const std::function<void(std::size_t index)>& body)>
      in_parallel;
  /// Called now and then during a long run, also while the oracle computes its reference.
  std::function<void()> on_progress;
  /// The choices that a cluster leaves open; its decisions are ignored: strategies have none.
  Schedule schedule;
  /// Detects buffers that are touched while they are in use, and calls of several groups in
  /// different orders: a diagnosis, and warnings.
  bool watch = false;
  /// Collects RunOutcome::detail, which needs a second run. It is also collected if the scenario
  /// asks for a file that shows it.
  bool detail = false;
  /// Gets the state files of a run with data (state_dump.hpp), each as soon as it is complete.
  /// Empty: no files.
  StateFileWriter write_state;
};

struct RunOutcome {
  Result result;
  std::vector<RankTrace> traces;  ///< Traces of the ranks that the scenario asks for; else empty.
  std::shared_ptr<const ProgramTables> texts;  ///< Keeps those that the traces name.
  /// Bytes by category on the fullest rank at its peak; of equal ranks, the lowest. The metrics
  /// have the largest of all ranks, which may be those of several.
  MemoryUse fullest_memory{};
  std::optional<RunDetail> detail;  ///< Set if it was requested, for a run that completed.
  /// Set for a run with data that completed.
  std::optional<DecisionLog> decisions;
};

/// Never throws for a finding of the run (a failed check, a deadlock, too little memory): that is
/// in the result, with its exit code. Throws LimitError and UsageError if it cannot run at all.
[[nodiscard]] RunOutcome run_experiment(const Experiment& experiment, const RunHooks& hooks = {});

/// The same for a scenario that is run once: compiles it first.
[[nodiscard]] RunOutcome run_scenario(Scenario scenario, const RunHooks& hooks = {});

/// Sets the exit code of the gravest failure.
void settle_exit_code(Result& result);

}  // namespace shardsim
