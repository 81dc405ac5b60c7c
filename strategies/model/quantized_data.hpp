#pragma once

#include <cstdint>
#include <span>

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
// Where a scale is for the whole tensor, there are codes alone; it is among Tensor::scales().
// Runs of rows may be tensors of their own, one after the other: rows of one expert, or its weight.
// Frameworks fill up the rows of an expert with zeros to whole blocks, so columns of tokens do
// that. An element is its code's number times its scale. All is exact in fp64, so products of
// quantized matrices round as their sums do.
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

/// The largest |x| of `rows` rows from the first one on, as fp32. REQUIRES: has_data().
[[nodiscard]] float largest_of(const Tensor& x, std::int64_t first, std::int64_t rows);
/// The factor of a tensor with this largest element ahead of its cast. Source: Transformer Engine,
/// compute_scale_from_amax (common/recipe/recipe_common.cuh).
[[nodiscard]] float multiplier_of(float largest, const NarrowFormat& format);

/// What is quantized, and where its bytes lie.
struct QuantizedForm {
  const RecipeRow& recipe;
  const NarrowFormat& format;
  bool is_weight;
  CopyDirection direction;

  [[nodiscard]] QuantizedLayout layout(std::int64_t rows, std::int64_t width) const;
  /// Rows that a run of `rows` has in memory.
  [[nodiscard]] std::int64_t filled(std::int64_t rows) const {
    const bool fills = !is_weight && direction == CopyDirection::columns;
    return fills ? recipe.filled(rows) : rows;
  }
};

/// Writes x as all of `bytes`. Its scales tell the runs; none: x is one, whose blocks must be
/// whole. Both throw UsageError E0681 if a block is not. `multipliers`: of each run, where a scale
/// is for whole tensors.
void encode(const RowMatrix& x, const QuantizedForm& form, std::span<const float> multipliers,
            const Tensor& bytes);
/// `rows`: of one run.
[[nodiscard]] RowMatrix decode(const Tensor& bytes, const QuantizedForm& form, std::int64_t rows,
                               std::int64_t width);

}  // namespace shardsim
