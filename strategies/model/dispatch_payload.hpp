#pragma once

#include <utility>

#include "strategies/model/low_precision.hpp"

// Rows [R, h] of tokens as they travel to experts: quantized, each by itself, or as they are. Their
// gradients are those of the rows that arrive. Source: DeepSeek-AI, "DeepSeek-V3 Technical Report"
// (2024), section 3.3.3.
namespace shardsim {

/// [R, row_bytes] in fp8; the same rows for `none`.
[[nodiscard]] inline Tensor narrowed(Runtime& runtime, ScalingRecipe recipe, Tensor rows) {
  if (recipe == ScalingRecipe::none) return rows;
  return quantize(runtime, {.recipe = recipe}, rows, Copies::rows).rows;
}

/// Back to [R, `width`] in `dtype`.
[[nodiscard]] inline Tensor widened(Runtime& runtime, ScalingRecipe recipe, Tensor rows,
                                    std::int64_t width, DType dtype) {
  if (recipe == ScalingRecipe::none) return rows;
  return dequantize(runtime, {.recipe = recipe}, rows, width, dtype);
}

/// Rounds rows on a rank that has all experts as those are that travel.
[[nodiscard]] inline Tensor as_if_sent(Runtime& runtime, ScalingRecipe recipe, Tensor rows) {
  const std::int64_t width = last_dim(rows);
  const DType dtype = rows.dtype();
  if (recipe == ScalingRecipe::none) return rows;
  const Shape shape = rows.shape();
  return widened(runtime, recipe, narrowed(runtime, recipe, std::move(rows)), width, dtype)
      .view(0, shape);
}

}  // namespace shardsim
