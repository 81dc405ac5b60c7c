#pragma once

#include <cstdint>

#include "strategies/model/low_precision.hpp"

// Products of quantized tensors: of one matrix, or of several experts' matrices in one kernel.
namespace shardsim {

/// A linear layer of `experts` matrices [n, k], which share one kernel.
struct LowProduct {
  ScalingRecipe recipe = ScalingRecipe::none;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t experts = 1;

  /// Bytes of a quantized copy of the weight.
  [[nodiscard]] std::int64_t weight_bytes() const;
};

/// That of a weight [n, k], or [E, n, k] of experts.
[[nodiscard]] LowProduct product_of(const LowPrecision& low, const Tensor& weight);

// `weight`: its quantized copy that is read. It may be undefined where there is no data.

/// Rows of x, rows of the weight -> y [.., n] in `dtype`. `bias` [n] or undefined.
[[nodiscard]] Tensor low_forward(Runtime& runtime, const LowProduct& product, const Tensor& x,
                                 const Tensor& weight, const Tensor& bias, DType dtype);
/// The same into y [.., n], which may be a part of the rows of another tensor.
void low_forward_to(Runtime& runtime, const LowProduct& product, const Tensor& x,
                    const Tensor& weight, const Tensor& bias, const Tensor& y);
/// Rows of dy, columns of the weight -> dx [.., k]; given a dx, it adds to that.
[[nodiscard]] Tensor low_backward_input(Runtime& runtime, const LowProduct& product,
                                        const Tensor& dy, const Tensor& weight, DType dtype,
                                        Tensor dx = {});
/// The same into dx [.., k], which may be a part of the rows of another tensor.
void low_backward_input_to(Runtime& runtime, const LowProduct& product, const Tensor& dy,
                           const Tensor& weight, const Tensor& dx, bool adds);
/// weight_gradient += dy^T x, from the columns of both. Its size tells k.
void low_backward_weight(Runtime& runtime, const LowProduct& product, const Tensor& dy,
                         const Tensor& x, const Tensor& weight_gradient);

/// The numbers of quantized columns of tokens, as [rows, width] in fp64. REQUIRES: data.
[[nodiscard]] Tensor numbers_of(Runtime& runtime, ScalingRecipe recipe, Operand operand,
                                const Tensor& columns, std::int64_t width);

}  // namespace shardsim
