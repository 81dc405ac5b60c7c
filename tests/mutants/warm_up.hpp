#pragma once

#include "strategies/pipeline/schedule.hpp"

#include "tests/mutants/mutant.hpp"

// A schedule whose warm-up is off by one on one rank: the classic mistake in writing one.
namespace shardsim::test {

/// Forwards and backwards keep their order, but `change` more forwards come before the first
/// backward; the cell after each backward shifts with it.
/// REQUIRES: a schedule that is not lowered, of forwards and backwards in turn after a warm-up.
[[nodiscard]] PipelineSchedule with_warm_up(const PipelineSchedule& schedule, int rank, int change);

/// The detector that finds that `mutated` is not `original`: the validator, or a run that counts. A
/// schedule with another warm-up may be correct and cost memory or time that the table does not.
[[nodiscard]] Detector finder_of(const PipelineSchedule& mutated, const PipelineSchedule& original);

}  // namespace shardsim::test
