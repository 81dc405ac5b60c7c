#pragma once

#include "strategies/model/context.hpp"
#include "strategies/model/linear.hpp"
#include "strategies/model/norm.hpp"
#include "strategies/model/parameter.hpp"

// Layers applied to parameters of a table: they fetch each weight when it is needed, and report
// each gradient as soon as nothing more is added to it, before the gradient of the input is
// computed. Gathering and reducing hide behind the arithmetic because of this order.
namespace shardsim {

/// One module on its way forward or backward. Its parameters count from `first`.
struct Pass : ModelContext {
  int first;

  [[nodiscard]] Tensor weight(int k) const { return parameters.weight(first + k); }
  [[nodiscard]] Tensor gradient(int k) const { return parameters.gradient(first + k); }
  void ready(int k) const { parameters.gradient_ready(first + k); }
};

/// A linear layer with weight k, and with bias k + 1 behind it or without bias.
[[nodiscard]] inline Tensor apply_linear(const Pass& pass, int k, const Tensor& x) {
  return linear_forward(pass.runtime, x, pass.weight(k), {});
}
[[nodiscard]] inline Tensor apply_linear_with_bias(const Pass& pass, int k, const Tensor& x) {
  // One after the other: fetching may communicate, so its order must not be the compiler's choice.
  const Tensor weight = pass.weight(k);
  const Tensor bias = pass.weight(k + 1);
  return linear_forward(pass.runtime, x, weight, bias);
}

/// Adds and reports the gradients of such a layer, the last parameter first.
inline void finish_linear(const Pass& pass, int k, const Tensor& dy, const Tensor& x) {
  linear_backward_weight(pass.runtime, dy, x, pass.gradient(k));
  pass.ready(k);
}
inline void finish_linear_with_bias(const Pass& pass, int k, const Tensor& dy, const Tensor& x) {
  linear_backward_bias(pass.runtime, dy, pass.gradient(k + 1));
  pass.ready(k + 1);
  finish_linear(pass, k, dy, x);
}

/// Layer norm with weight k and bias k + 1.
[[nodiscard]] inline NormOutput apply_layer_norm(const Pass& pass, int k, const Tensor& x,
                                                 double epsilon) {
  const Tensor weight = pass.weight(k);
  const Tensor bias = pass.weight(k + 1);
  return layer_norm_forward(pass.runtime, x, weight, bias, epsilon);
}

/// Returns dx, adds and reports both gradients.
[[nodiscard]] inline Tensor finish_layer_norm(const Pass& pass, int k, const Tensor& dy,
                                              const Tensor& x, const Tensor& statistics) {
  Tensor dx;
  {  // Nothing holds on to a gradient that has been reported: its memory may be about to be freed.
    const Tensor weight = pass.weight(k);
    const Tensor bias_gradient = pass.gradient(k + 1);
    const Tensor weight_gradient = pass.gradient(k);
    dx = layer_norm_backward(pass.runtime, dy, x, weight, statistics, weight_gradient,
                             bias_gradient);
  }
  pass.ready(k + 1);
  pass.ready(k);
  return dx;
}

/// RMS norm with weight k: returns dx, adds and reports the gradient.
[[nodiscard]] inline Tensor finish_rms_norm(const Pass& pass, int k, const Tensor& dy,
                                            const Tensor& x, const Tensor& statistics) {
  Tensor dx;
  {
    const Tensor weight = pass.weight(k);
    const Tensor weight_gradient = pass.gradient(k);
    dx = rms_norm_backward(pass.runtime, dy, x, weight, statistics, weight_gradient);
  }
  pass.ready(k);
  return dx;
}

}  // namespace shardsim
