#include "strategies/model/quantized_layout.hpp"

namespace shardsim {

namespace {

std::int64_t num_parts(std::int64_t whole, std::int64_t part) { return (whole + part - 1) / part; }

}  // namespace

QuantizedLayout layout_of_tokens(const RecipeRow& recipe, CopyDirection direction,
                                 std::int64_t rows, std::int64_t width) {
  if (recipe.block == 0) return {rows, width, 1, 0, 0};
  if (direction == CopyDirection::rows) return {rows, width, 1, 1, recipe.block};
  return {rows, width, recipe.block, recipe.block, 1};
}

QuantizedLayout layout_of_weight(const RecipeRow& recipe, CopyDirection direction,
                                 std::int64_t rows, std::int64_t width) {
  if (recipe.block == 0) return {rows, width, rows, 0, 0};
  if (direction == CopyDirection::rows)
    return {rows, width, rows, recipe.weight_rows, recipe.block};
  return {rows, width, rows, recipe.block, recipe.weight_rows};
}

std::int64_t bytes_of_group(const QuantizedLayout& layout, const RecipeRow& recipe) {
  const std::int64_t codes = recipe.code_bytes(layout.group_rows * layout.width);
  if (layout.block_rows == 0) return codes;
  return codes + num_parts(layout.group_rows, layout.block_rows) *
                     num_parts(layout.width, layout.block_width) * recipe.scale_bytes;
}

std::int64_t bytes_of(const QuantizedLayout& layout, const RecipeRow& recipe) {
  if (layout.rows == 0) return 0;
  return layout.rows / layout.group_rows * bytes_of_group(layout, recipe);
}

CodePlace place_of_code(const QuantizedLayout& layout, const RecipeRow& recipe,
                        std::int64_t group_bytes, std::int64_t row, std::int64_t column) {
  const std::int64_t group = row / layout.group_rows * group_bytes;
  const std::int64_t code = row % layout.group_rows * layout.width + column;
  if (element_bits(recipe.dtype) == 8) return {group + code, false};
  return {group + code / 2, code % 2 == 1};
}

}  // namespace shardsim
