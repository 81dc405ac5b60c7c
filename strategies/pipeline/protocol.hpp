#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "strategies/pipeline/schedule.hpp"

// Private to strategies/pipeline: the protocol of lower.hpp, played without engine or tensors.
//
// A schedule is a set of lists, each run in order, whose steps wait for certain steps of other
// lists. Hence the outcome (all done, or who is stuck where) does not depend on durations, and
// times are maxima and sums. validate() asks for the first, timeline() for the second.
//
// A schedule without sends and receives is played with its dependencies alone: what a rank makes
// reaches the next rank one message time later, without rendezvous and without limit.
namespace shardsim {

/// A place in a schedule.
struct Cell {
  int rank = 0;
  int cell = 0;

  friend bool operator==(const Cell&, const Cell&) = default;
};

/// For F, B, I and W: the time of computing. For a send or receive: from its posting to the end of
/// the transfer.
struct ActionSpan {
  std::int64_t start = 0;
  std::int64_t end = 0;

  friend bool operator==(const ActionSpan&, const ActionSpan&) = default;
};

struct ProtocolCosts {
  /// How long a compute action takes that starts at this time. A rank's are asked for in their
  /// order, each once.
  std::function<std::int64_t(int rank, const Action& action, std::int64_t start)> compute;
  std::int64_t message = 0;
};

/// A rank that cannot continue: `at` waits for `on`, which its rank has not reached.
struct StuckRank {
  Cell at;
  Cell on;
};

/// The ranks that cannot continue, ascending; empty if all is done.
/// REQUIRES: every compute action of the schedule occurs once. If it is lowered, so does the send
/// and the receive of each message, in the same order at both ends of an edge (check_cells).
[[nodiscard]] std::vector<StuckRank> find_stuck_ranks(const PipelineSchedule& schedule);

/// When everything happens, [rank][cell].
/// REQUIRES: the same, and that no rank is stuck.
[[nodiscard]] std::vector<std::vector<ActionSpan>> play_protocol(const PipelineSchedule& schedule,
                                                                 const ProtocolCosts& costs);

}  // namespace shardsim
