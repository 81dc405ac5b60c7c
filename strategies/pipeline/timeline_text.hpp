#pragma once

#include <string>

#include "strategies/pipeline/schedule.hpp"
#include "strategies/pipeline/timeline.hpp"

// A timeline as a picture, one row per rank and one column per unit of time:
//
//   time   0   1   2   3   4   5   6
//   rank 0 0F0 0F1 .   .   0B0 --- 0B1 ...
//
// An action stands where it starts, "---" where it continues, "." where the rank is idle. Sends,
// receives and actions that take no time are not shown.
namespace shardsim {

/// REQUIRES: `times` is the timeline of `schedule`. Throws LimitError if the makespan is longer
/// than a picture can be (10,000 columns).
[[nodiscard]] std::string to_picture(const PipelineSchedule& schedule, const Timeline& times);

}  // namespace shardsim
