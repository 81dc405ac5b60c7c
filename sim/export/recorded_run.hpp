#pragma once

#include <string>
#include <vector>

#include "sim/export/call_recorder.hpp"
#include "sim/run/run.hpp"

// A run with all data for traces of other programs: the times of every operation of every rank
// (RankTrace), and the calls (RunCalls), side by side.
namespace shardsim {

/// An operation of one rank.
struct RecordedOperation {
  const TraceSlice* slice = nullptr;
  std::size_t track = 0;               ///< In the rank's trace; 0 is the compute stream.
  const RecordedCall* call = nullptr;  ///< Null for work of the compute stream.
  int group = -1;                      ///< In RunCalls::groups; -1: none.
};

struct RecordedRun {
  explicit RecordedRun(Scenario from)
      : experiment(std::move(from)), calls(experiment.mesh().size()) {}

  Experiment experiment;
  RunCalls calls;
  RunOutcome outcome;
  std::vector<std::vector<RecordedOperation>> ranks;  ///< By rank, each in order of their start.
};

/// Runs the scenario with all ranks, none represented by another. Throws LimitError E1371 for more
/// ranks than there should be files, and Error E1372 with the cause if the run stops.
[[nodiscard]] std::unique_ptr<RecordedRun> record_run(Scenario scenario, const RunHooks& hooks);

}  // namespace shardsim
