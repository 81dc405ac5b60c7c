#pragma once

#include "strategies/training/parallel_plan.hpp"

// Private to strategies/training: the schedule that the ranks of a plan run.
namespace shardsim {

/// The options' schedule, their own or the named one, validated and with communication in it.
/// Throws UsageError for one that is not theirs or that a mesh cannot run, CommunicationError for
/// one that cannot run at all.
[[nodiscard]] PipelineSchedule lowered_schedule(const ParallelOptions& options);

}  // namespace shardsim
