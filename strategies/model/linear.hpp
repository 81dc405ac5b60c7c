#pragma once

#include "strategies/model/layer.hpp"

// The linear layer y = x W^T + b, with W as in torch.nn.Linear: one row per output.
namespace shardsim {

/// x [..., k], weight [n, k], bias [n] or undefined -> y [..., n].
[[nodiscard]] Tensor linear_forward(Runtime& runtime, const Tensor& x, const Tensor& weight,
                                    const Tensor& bias);

/// The same into y [..., n], which may be a part of the rows of another tensor.
void linear_forward_to(Runtime& runtime, const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& y);

/// y [..., n] += bias [n], in place: for a bias that must not be added before y is a whole sum.
void add_bias(Runtime& runtime, const Tensor& bias, const Tensor& y);

/// weight_gradient [n, k] += dy^T x, with dy [..., n] and x [..., k].
void linear_backward_weight(Runtime& runtime, const Tensor& dy, const Tensor& x,
                            const Tensor& weight_gradient);

/// bias_gradient [n] += the sum of dy's rows.
void linear_backward_bias(Runtime& runtime, const Tensor& dy, const Tensor& bias_gradient);

/// dy [..., n], weight [n, k] -> dx = dy W [..., k]. Given a dx, it adds to that in place and
/// returns it: for an input that several linear layers read.
[[nodiscard]] Tensor linear_backward_input(Runtime& runtime, const Tensor& dy, const Tensor& weight,
                                           Tensor dx = {});
/// The same into dx [..., k], which may be a part of the rows of another tensor.
void linear_backward_input_to(Runtime& runtime, const Tensor& dy, const Tensor& weight,
                              const Tensor& dx, bool adds);

}  // namespace shardsim
