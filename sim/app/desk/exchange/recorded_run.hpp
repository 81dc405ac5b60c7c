#pragma once

#include <string>
#include <vector>

#include "sim/app/desk/exchange/call_recorder.hpp"
#include "sim/app/run.hpp"

// A run with everything that traces of other programs want to know of it: when every operation of
// every rank ran (RankTrace), and what it was (RunCalls), side by side.
namespace shardsim {

/// An operation of one rank.
struct RecordedOperation {
  const TraceSlice* slice = nullptr;
  std::size_t track = 0;               ///< In the rank's trace; 0 is the compute stream.
  const RecordedCall* call = nullptr;  ///< Null for what the compute stream does.
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

/// Runs the scenario with all ranks, none stood for by another. Throws LimitError E1371 for more
/// ranks than files are sensibly written for, and Error E1372 with what stopped the run.
[[nodiscard]] std::unique_ptr<RecordedRun> record_run(Scenario scenario, const RunHooks& hooks);

}  // namespace shardsim
