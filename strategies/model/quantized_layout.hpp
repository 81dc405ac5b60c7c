#pragma once

#include <algorithm>
#include <cstdint>

#include "strategies/model/low_precision.hpp"

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
// Codes of 4 bits lie two in a byte, the first one in its lower half.
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

/// Bytes of a group with its scales, and of the whole.
[[nodiscard]] std::int64_t bytes_of_group(const QuantizedLayout& layout, const RecipeRow& recipe);
[[nodiscard]] std::int64_t bytes_of(const QuantizedLayout& layout, const RecipeRow& recipe);

/// The place of a code: its byte, and its half where there are two.
struct CodePlace {
  std::int64_t byte;
  bool is_upper;
};
[[nodiscard]] CodePlace place_of_code(const QuantizedLayout& layout, const RecipeRow& recipe,
                                      std::int64_t group_bytes, std::int64_t row,
                                      std::int64_t column);

/// Elements of one block, from row and column `first` on, and where its scale lies, or -1.
struct ScaledBlock {
  std::int64_t first_row;
  std::int64_t first_column;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t scale_at;
};

template <typename Visit>
void for_each_block(const QuantizedLayout& layout, const RecipeRow& recipe, const Visit& visit) {
  if (layout.block_rows == 0) return visit(ScaledBlock{0, 0, layout.rows, layout.width, -1});
  const std::int64_t group_bytes = bytes_of_group(layout, recipe);
  const std::int64_t codes = recipe.code_bytes(layout.group_rows * layout.width);
  for (std::int64_t group = 0; group < layout.rows; group += layout.group_rows) {
    const std::int64_t group_end = std::min(group + layout.group_rows, layout.rows);
    std::int64_t scale_at = group / layout.group_rows * group_bytes + codes;
    for (std::int64_t row = group; row < group_end; row += layout.block_rows) {
      for (std::int64_t column = 0; column < layout.width; column += layout.block_width) {
        visit(ScaledBlock{row, column, std::min(layout.block_rows, group_end - row),
                          std::min(layout.block_width, layout.width - column), scale_at});
        scale_at += recipe.scale_bytes;
      }
    }
  }
}

}  // namespace shardsim
