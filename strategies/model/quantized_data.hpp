#pragma once

#include <cstdint>

#include "sim/kernel/narrow_float.hpp"

#include "strategies/model/low_precision.hpp"
#include "strategies/model/row_matrix.hpp"

// The bytes of a quantized matrix [rows, width]. Groups of rows follow each other, so that a part
// of the rows is a part of the bytes; each group has the codes of its elements, and behind them the
// scales of its blocks:
//
//              of          group           block that shares a scale
//   rows       tokens      1 row           1 x B
//   columns    tokens      B rows          B x 1
//   rows       a weight    all rows        R x B   (R: RecipeRow::weight_rows)
//   columns    a weight    all rows        B x R
//
// Where a scale is for the whole tensor, there are codes alone; it is Tensor::scale().
// An element is its code's number times its scale. All is exact in fp64, so products of quantized
// matrices round as their sums do.
namespace shardsim {

enum class CopyDirection : std::uint8_t { rows, columns };

struct QuantizedLayout {
  std::int64_t rows;
  std::int64_t width;
  std::int64_t group_rows;
  std::int64_t block_rows;   ///< 0: one scale for all.
  std::int64_t block_width;  ///< 0: one scale for all.
};
[[nodiscard]] QuantizedLayout layout_of_tokens(const RecipeRow& recipe, CopyDirection direction,
                                               std::int64_t rows, std::int64_t width);
[[nodiscard]] QuantizedLayout layout_of_weight(const RecipeRow& recipe, CopyDirection direction,
                                               std::int64_t rows, std::int64_t width);

/// The largest |x|, as fp32. REQUIRES: has_data().
[[nodiscard]] float largest_of(const Tensor& x);
/// The factor of a tensor with this largest element ahead of its cast. Source: Transformer Engine,
/// compute_scale_from_amax (common/recipe/recipe_common.cuh).
[[nodiscard]] float multiplier_of(float largest, const NarrowFormat& format);

/// Writes x as `bytes`, of the whole layout. Both throw UsageError E0681 if a block is not whole.
/// `multiplier`: where a scale is for the whole tensor.
void encode(const RowMatrix& x, const RecipeRow& recipe, const NarrowFormat& format,
            const QuantizedLayout& layout, float multiplier, const Tensor& bytes);
[[nodiscard]] RowMatrix decode(const Tensor& bytes, const RecipeRow& recipe,
                               const NarrowFormat& format, const QuantizedLayout& layout);

}  // namespace shardsim
