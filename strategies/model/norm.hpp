#pragma once

#include "strategies/model/layer.hpp"

// Normalisation over the last dimension, or over equal parts of it, of two kinds.
//
// Layer norm has a bias: y = (x - mean) / sqrt(variance + epsilon) * weight + bias. Source: Ba,
// Kiros and Hinton, "Layer Normalization" (2016).
// RMS norm has none: y = x / sqrt(mean of x^2 + epsilon) * weight. Source: Zhang and Sennrich,
// "Root Mean Square Layer Normalization" (2019).
namespace shardsim {

struct NormOutput {
  Tensor y;  ///< Shape of x.
  /// Needed by backward besides x. Layer norm: [rows, 2], mean and reciprocal standard deviation.
  /// RMS norm: [rows], the reciprocal root.
  Tensor statistics;
};

/// x [..., n h] in rows of h, such as n heads; weight [h], bias [h] or undefined, which makes it
/// RMS norm.
[[nodiscard]] NormOutput norm_forward(Runtime& runtime, const Tensor& x, const Tensor& weight,
                                      const Tensor& bias, double epsilon);
/// Returns dx; weight_gradient and bias_gradient [h], undefined for RMS norm, are added to.
[[nodiscard]] Tensor norm_backward(Runtime& runtime, const Tensor& dy, const Tensor& x,
                                   const Tensor& weight, const Tensor& statistics,
                                   const Tensor& weight_gradient, const Tensor& bias_gradient);

}  // namespace shardsim
