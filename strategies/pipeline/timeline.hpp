#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strategies/pipeline/protocol.hpp"
#include "strategies/pipeline/schedule.hpp"

// When each action of a schedule runs, given how long actions take. In integer time of any unit.
namespace shardsim {

/// Times of one stage for one microbatch; B takes I + W.
struct StageCosts {
  std::int64_t forward = 1;          ///< F
  std::int64_t backward_input = 1;   ///< I
  std::int64_t backward_weight = 1;  ///< W

  /// The time of a compute action.
  [[nodiscard]] std::int64_t of(ActionKind kind) const;
};

struct ScheduleCosts {
  std::vector<StageCosts> stages;  ///< One for each stage, or a single one for all.
  std::int64_t message = 0;        ///< Time of one transfer.
};

struct RankTimeline {
  std::int64_t busy = 0;          ///< Sum of its compute actions.
  std::int64_t idle = 0;          ///< Makespan minus busy: waiting for the first microbatch, too.
  std::int64_t idle_in_span = 0;  ///< Pauses between its first start and its last end.
  int peak_in_flight = 0;         ///< See peak_in_flight().
};

struct Timeline {
  std::vector<std::vector<ActionSpan>> spans;  ///< [rank][cell]
  std::vector<RankTimeline> ranks;
  std::int64_t makespan = 0;  ///< From 0 to the last end of a compute action.
};

/// Plays the schedule. A lowered one follows the protocol of lower.hpp. Otherwise only dependencies
/// count: a result is with its consumer one message time after it is made, which no protocol beats.
/// Throws UsageError if the costs do not fit the schedule or are negative, LimitError if their sum
/// overflows, CommunicationError if the schedule is wrong (validate.hpp).
[[nodiscard]] Timeline timeline(const PipelineSchedule& schedule, const ScheduleCosts& costs);

/// Plays a schedule whose actions take what `compute` says, which may depend on when they start.
/// REQUIRES: the schedule is valid, and costs are neither negative nor add up to more than 2^61.
void play_actions(const PipelineSchedule& schedule, const ProtocolCosts& costs);

/// The most forwards of the rank whose activations are held at once, counted in chunks of
/// microbatches: from the start of F to the end of B or W. Divide by V for whole microbatches.
[[nodiscard]] int peak_in_flight(const PipelineSchedule& schedule, int rank);

/// For a schedule that does not say how many sends may be in flight on an edge: the fewest, from
/// two on, that cost it no time while every action takes one unit and messages none. It is then in
/// no deadlock for want of sends, and holds no more tensors than that takes. For a schedule that
/// cannot run with any number: as many as there can be, so that what is wrong is not their number.
[[nodiscard]] int fewest_sends(PipelineSchedule schedule);

/// A timeline as a picture, one row per rank and one column per unit of time:
///
///   time   0   1   2   3   4   5   6
///   rank 0 0F0 0F1 .   .   0B0 --- 0B1 ...
///
/// An action stands where it starts, "---" where it continues, "." where the rank is idle. Sends,
/// receives and actions that take no time are not shown.
/// REQUIRES: `times` is the timeline of `schedule`. Throws LimitError if the makespan is longer
/// than a picture can be (10,000 columns).
[[nodiscard]] std::string to_picture(const PipelineSchedule& schedule, const Timeline& times);

}  // namespace shardsim
