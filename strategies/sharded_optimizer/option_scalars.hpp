#pragma once

#include "strategies/checkpoint/chunk.hpp"
#include "strategies/sharded_optimizer/regularized_optimizer.hpp"

namespace shardsim {

/// What makes an update of a gradient, as a state keeps it: "optimizer.learning_rate" and all other
/// settings of the wrapped optimizer, those that it does not read included, "regularization.l1" and
/// "regularization.l2".
[[nodiscard]] Scalars option_scalars(const OptimizerOptions& options,
                                     const Regularization& penalty);

}  // namespace shardsim
