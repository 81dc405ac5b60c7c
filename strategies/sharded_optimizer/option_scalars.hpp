#pragma once

#include "strategies/checkpoint/chunk.hpp"
#include "strategies/sharded_optimizer/regularized_optimizer.hpp"

namespace shardsim {

/// Settings that make an update of a gradient, as a state keeps them: "optimizer.learning_rate" and
/// all others of the wrapped optimizer, including those that it does not read, "regularization.l1"
/// and "regularization.l2".
[[nodiscard]] Scalars option_scalars(const OptimizerOptions& options,
                                     const Regularization& penalty);

}  // namespace shardsim
