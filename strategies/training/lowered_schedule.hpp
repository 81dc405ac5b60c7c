#pragma once

#include "strategies/training/parallel_plan.hpp"

// Private to strategies/training: the schedule that the ranks of a plan run.
namespace shardsim {

/// The options' schedule, their own or the named one, validated and with communication in it: one
/// of their own that has sends and receives already keeps them. Throws UsageError for one that is
/// not theirs, CommunicationError for one that cannot run.
[[nodiscard]] PipelineSchedule lowered_schedule(const ParallelOptions& options);

}  // namespace shardsim
