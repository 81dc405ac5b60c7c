#pragma once

#include <vector>

#include "strategies/model/model.hpp"

namespace shardsim {

/// Parameters in the order in which backward reports their gradients. An inner list are those it
/// adds to at the same time (weight and bias of a layer norm) and then reports one after the other.
using ReadyOrder = std::vector<std::vector<int>>;

/// The order in which backward reports gradients, found by running the model once on shapes only
/// (PyTorch's DDP rebuilds its buckets from the first step in the same way).
[[nodiscard]] ReadyOrder gradient_ready_order(const Model& model, DType dtype);

}  // namespace shardsim
