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

/// The most forwards of the rank whose activations are held at once, counted in chunks of
/// microbatches: from the start of F to the end of B or W. Divide by V for whole microbatches.
[[nodiscard]] int peak_in_flight(const PipelineSchedule& schedule, int rank);

}  // namespace shardsim
