#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/kernel/diagnosis.hpp"

#include "sim/harness/call_steps.hpp"
#include "sim/harness/schedule.hpp"

// Judges what the ranks of a real run have done: their steps run in memory, without data, where the
// code that explains a run in memory explains them.
namespace shardsim {

/// All that a rank has done.
struct RankLog {
  std::vector<CallStep> steps;
  /// Its program has ended, one way or another. If not, it waits in its last step.
  bool ended = false;
};
/// Throws std::runtime_error if these are no steps.
[[nodiscard]] RankLog rank_log_of(const std::string& steps, bool ended);

struct LoggedRun {
  std::optional<Diagnosis> failure;
  std::vector<Diagnosis> warnings;
  /// A rank that waits would get on: the run is slow, and says nothing yet.
  bool goes_on = false;
};
/// `logs`: by rank.
[[nodiscard]] LoggedRun run_logged(const std::vector<RankLog>& logs,
                                   SendMode sends = SendMode::rendezvous);

}  // namespace shardsim
