#pragma once

#include "strategies/pipeline/schedule.hpp"

namespace shardsim {

/// For a schedule that does not say how many sends may be in flight on an edge: the fewest, from
/// two on, that cost it no time while every action takes one unit and messages none. It is then in
/// no deadlock for want of sends, and holds no more tensors than that takes. For a schedule that
/// cannot run with any number: as many as there can be, so that what is wrong is not their number.
[[nodiscard]] int fewest_sends(PipelineSchedule schedule);

}  // namespace shardsim
