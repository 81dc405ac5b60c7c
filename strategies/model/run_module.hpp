#pragma once

#include "strategies/model/model.hpp"

// A module's turn for one microbatch: Model::forward or Model::backward, which a recorder need not
// run each time.
namespace shardsim {

[[nodiscard]] Tensor run_forward(const Model& model, int module, const ModelContext& context,
                                 const Tensor& input, const Batch& batch, Saved& saved);
[[nodiscard]] Tensor run_backward(const Model& model, int module, const ModelContext& context,
                                  const Tensor& output_gradient, const Batch& batch, Saved& saved);

}  // namespace shardsim
