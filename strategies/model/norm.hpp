#pragma once

#include "strategies/model/layer.hpp"

// Normalisation over the last dimension, or over equal parts of it, of two kinds.
//
// Layer norm has a bias: y = (x - mean) / sqrt(variance + epsilon) * weight + bias. Source: Ba,
// Kiros and Hinton, "Layer Normalization" (2016).
// RMS norm has none: y = x / sqrt(mean of x^2 + epsilon) * weight. Source: Zhang and Sennrich,
// "Root Mean Square Layer Normalization" (2019).
// Either may have a weight that is centred on 0: it multiplies by 1 + weight, whose gradient is the
// same. Source: Gemma Team, "Gemma" (2024); Megatron-LM, `apply_layernorm_1p`.
namespace shardsim {

/// Which norm it is.
struct NormForm {
  bool is_layer = false;  ///< Layer norm, with a bias or without. Else RMS norm.
  bool has_bias = false;
  bool is_zero_centred = false;  ///< Weights are added to 1.
};

struct NormOutput {
  Tensor y;  ///< Shape of x.
  /// Needed by backward besides x. Layer norm: [rows, 2], mean and reciprocal standard deviation.
  /// RMS norm: [rows], the reciprocal root.
  Tensor statistics;
};

/// x [..., n h] in rows of h, such as n heads; weight [h], bias [h] or undefined. A bias makes it
/// layer norm, whatever the form says.
[[nodiscard]] NormOutput norm_forward(Runtime& runtime, const Tensor& x, const Tensor& weight,
                                      const Tensor& bias, double epsilon,
                                      const NormForm& form = {});
/// Returns dx; weight_gradient and bias_gradient [h], undefined without a bias, are added to.
[[nodiscard]] Tensor norm_backward(Runtime& runtime, const Tensor& dy, const Tensor& x,
                                   const Tensor& weight, const Tensor& statistics,
                                   const Tensor& weight_gradient, const Tensor& bias_gradient,
                                   const NormForm& form = {});

}  // namespace shardsim
