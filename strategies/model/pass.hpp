#pragma once

#include "strategies/model/context.hpp"
#include "strategies/model/dropout.hpp"
#include "strategies/model/linear.hpp"
#include "strategies/model/model.hpp"
#include "strategies/model/norm.hpp"
#include "strategies/model/parameter.hpp"
#include "strategies/model/weight_gradient.hpp"

// Layers applied to parameters of a table: they fetch each weight when it is needed, and report
// each gradient as soon as nothing more is added to it, before the gradient of the input is
// computed. Gathering and reducing hide behind the arithmetic because of this order.
namespace shardsim {

/// One module on its way forward or backward. Its parameters count from `first`.
struct Pass : ModelContext {
  int first;
  std::int64_t seq_len = 1;  ///< Positions per sample here: a shard of tokens does not show it.
  int block = -1;            ///< Number of the block that is passed, or -1.
  Dropout dropout = {};
  SequencePart part = {};        ///< Which of each sample's positions they are.
  const Batch* batch = nullptr;  ///< The microbatch itself; null in tests of layers.

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
  add_weight_gradient(pass, {.parameter = pass.first + k, .dy = dy, .x = x});
}
inline void finish_bias(const Pass& pass, int k, const Tensor& dy) {
  add_weight_gradient(pass,
                      {.kind = WeightGradient::Kind::bias, .parameter = pass.first + k, .dy = dy});
}
inline void finish_linear_with_bias(const Pass& pass, int k, const Tensor& dy, const Tensor& x) {
  finish_bias(pass, k + 1, dy);
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
[[nodiscard]] Tensor finish_layer_norm(const Pass& pass, int k, const Tensor& dy, const Tensor& x,
                                       const Tensor& statistics);

/// RMS norm with weight k: returns dx, adds and reports the gradient.
[[nodiscard]] Tensor finish_rms_norm(const Pass& pass, int k, const Tensor& dy, const Tensor& x,
                                     const Tensor& statistics);

}  // namespace shardsim
