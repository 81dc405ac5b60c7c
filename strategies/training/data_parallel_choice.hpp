#pragma once

#include "strategies/training/parallel_plan.hpp"

// Private to strategies/training: which choices of data parallelism go together.
namespace shardsim {

/// Throws UsageError, with the reason, for compression, late gradients, replicas that train apart
/// and changing membership where they are combined with each other, or with what they cannot do.
void require_fitting_choice(const ParallelOptions& options);

}  // namespace shardsim
