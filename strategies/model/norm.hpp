#pragma once

#include "strategies/model/layer.hpp"

// Normalisation over the last dimension.
namespace shardsim {

struct NormOutput {
  Tensor y;           ///< [..., h]
  Tensor statistics;  ///< Needed by backward besides x: see the functions.
};

/// y = (x - mean) / sqrt(variance + epsilon) * weight + bias. Source: Ba, Kiros and Hinton, "Layer
/// Normalization" (2016). x [..., h], weight [h], bias [h]; statistics [rows, 2]: mean and
/// reciprocal standard deviation.
[[nodiscard]] NormOutput layer_norm_forward(Runtime& runtime, const Tensor& x, const Tensor& weight,
                                            const Tensor& bias, double epsilon);
/// Returns dx; weight_gradient and bias_gradient [h] are added to.
[[nodiscard]] Tensor layer_norm_backward(Runtime& runtime, const Tensor& dy, const Tensor& x,
                                         const Tensor& weight, const Tensor& statistics,
                                         const Tensor& weight_gradient,
                                         const Tensor& bias_gradient);

/// y = x / sqrt(mean of x^2 + epsilon) * weight. Source: Zhang and Sennrich, "Root Mean Square
/// Layer Normalization" (2019). x [..., h], weight [h]; statistics [rows]: the reciprocal root.
[[nodiscard]] NormOutput rms_norm_forward(Runtime& runtime, const Tensor& x, const Tensor& weight,
                                          double epsilon);
/// Returns dx; weight_gradient [h] is added to.
[[nodiscard]] Tensor rms_norm_backward(Runtime& runtime, const Tensor& dy, const Tensor& x,
                                       const Tensor& weight, const Tensor& statistics,
                                       const Tensor& weight_gradient);

}  // namespace shardsim
