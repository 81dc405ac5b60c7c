#pragma once

#include "strategies/model/feed_forward_activation.hpp"

// Weights of experts on what their last product reads, as part of the activation's kernels: then
// nothing of the experts' outputs is kept for the weights' gradients. Source: Megatron-LM,
// core/fusions/fused_bias_swiglu.py, weighted_bias_swiglu_impl (since core 0.12).
namespace shardsim {

/// y [R, f], the activation of `gate` and `up`, becomes its rows times `weights` [R, 1].
void weigh_activation(Runtime& runtime, const ActivationForm& form, const Tensor& gate,
                      const Tensor& up, const Tensor& weights, const Tensor& y);
/// The gradient of `weights` [R, 1]; in place: dy, that of the weighed rows, becomes that of the
/// activation.
[[nodiscard]] Tensor weigh_activation_backward(Runtime& runtime, const ActivationForm& form,
                                               const Tensor& gate, const Tensor& up,
                                               const Tensor& weights, const Tensor& dy);

}  // namespace shardsim
