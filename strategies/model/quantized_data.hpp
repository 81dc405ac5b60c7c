#pragma once

#include <cstdint>
#include <span>

#include "sim/kernel/narrow_float.hpp"

#include "strategies/model/element_chance.hpp"
#include "strategies/model/low_precision.hpp"
#include "strategies/model/quantized_layout.hpp"
#include "strategies/model/row_matrix.hpp"

// The elements of quantized matrices, in the bytes of quantized_layout.hpp.
// Where a scale is for the whole tensor, there are codes alone; it is among Tensor::scales().
// Runs of rows may be tensors of their own, one after the other: rows of one expert, or its weight.
// Frameworks fill up the rows of an expert with zeros to whole blocks, so columns of tokens do
// that. An element is its code's number times its scale, exact in fp64.
namespace shardsim {

/// The largest |x| of `rows` rows from the first one on, as fp32; of what a transform makes of them
/// if it `is_transformed`. REQUIRES: has_data().
[[nodiscard]] float largest_of(const Tensor& x, std::int64_t first, std::int64_t rows,
                               bool is_transformed = false);
/// A quantized matrix: its format and the order of its bytes.
struct QuantizedForm {
  const RecipeRow& recipe;
  const NarrowFormat& format;
  bool is_weight;
  CopyDirection direction;

  [[nodiscard]] QuantizedLayout layout(std::int64_t rows, std::int64_t width) const;
  /// Rows that a run of `rows` has in memory,
  [[nodiscard]] std::int64_t filled(std::int64_t rows) const {
    const bool fills = !is_weight && direction == CopyDirection::columns;
    return fills ? recipe.filled(rows) : rows;
  }
  /// and rows that it has for products: a transform leaves none that is zeros.
  [[nodiscard]] std::int64_t read(std::int64_t rows) const {
    return is_transformed() ? filled(rows) : rows;
  }
  [[nodiscard]] bool is_transformed() const {
    return recipe.transforms && !is_weight && direction == CopyDirection::columns;
  }
};

/// Writes x as all of `bytes`. Its scales tell the runs; none: x is one, whose blocks must be
/// whole. Both throw UsageError E0681 if a block is not. `multipliers`: of each run, where a scale
/// is for whole tensors. `places`: of elements that are rounded by chance, or null.
void encode(const RowMatrix& x, const QuantizedForm& form, std::span<const float> multipliers,
            const ElementPlaces* places, const Tensor& bytes);
/// The numbers that products read. `rows`: of one run.
[[nodiscard]] RowMatrix decode(const Tensor& bytes, const QuantizedForm& form, std::int64_t rows,
                               std::int64_t width);

}  // namespace shardsim
