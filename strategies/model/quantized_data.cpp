#include "strategies/model/quantized_data.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

std::int64_t num_parts(std::int64_t whole, std::int64_t part) { return (whole + part - 1) / part; }

// A scale of a block: what elements are multiplied by, as it is stored.
struct BlockScale {
  float multiplier;
  float inverse;
};

// Powers of two, so that the multiplication is exact. Source: Transformer Engine,
// Float8BlockScaling with power-of-two scales (the default), and MXFP8BlockScaling.
BlockScale scale_of_block(float largest, const RecipeRow& recipe, const NarrowFormat& format) {
  if (recipe.scale_bytes == 1) {
    const double power = from_e8m0(to_e8m0(largest / static_cast<float>(format.largest)));
    return {static_cast<float>(1.0 / power), static_cast<float>(power)};
  }
  const float multiplier = multiplier_of(largest, format);
  constexpr std::uint32_t kMantissa = 0x007FFFFFU;
  const auto power = std::bit_cast<float>(std::bit_cast<std::uint32_t>(multiplier) & ~kMantissa);
  return {power, 1.0F / power};
}

void write_scale(std::byte* at, const RecipeRow& recipe, float inverse) {
  if (recipe.scale_bytes == 1) {
    *at = static_cast<std::byte>(to_e8m0(inverse));
  } else {
    std::memcpy(at, &inverse, sizeof inverse);
  }
}

double read_scale(const std::byte* at, const RecipeRow& recipe) {
  if (recipe.scale_bytes == 1) return from_e8m0(static_cast<std::uint8_t>(*at));
  float inverse = 0.0F;
  std::memcpy(&inverse, at, sizeof inverse);
  return static_cast<double>(inverse);
}

// Elements of one block, from row and column `first` on, and where its scale lies.
struct ScaledBlock {
  std::int64_t first_row;
  std::int64_t first_column;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t scale_at;
};

// Where a row's codes begin.
std::int64_t codes_at(const QuantizedLayout& layout, std::int64_t group_bytes, std::int64_t row) {
  return row / layout.group_rows * group_bytes + row % layout.group_rows * layout.width;
}

std::int64_t bytes_of_group(const QuantizedLayout& layout, const RecipeRow& recipe) {
  const std::int64_t codes = layout.group_rows * layout.width;
  if (layout.block_rows == 0) return codes;
  return codes + num_parts(layout.group_rows, layout.block_rows) *
                     num_parts(layout.width, layout.block_width) * recipe.scale_bytes;
}

// Blocks that are not whole would need other bytes than the copies have.
void require_whole(const QuantizedLayout& layout, const RecipeRow& recipe, const Tensor& bytes) {
  const std::int64_t needed = layout.rows / layout.group_rows * bytes_of_group(layout, recipe);
  if (layout.rows % layout.group_rows == 0 && needed == bytes.num_bytes()) return;
  throw UsageError(
      "E0681",
      concat("a matrix of ", layout.rows, " x ", layout.width, " has a scale for every ",
             recipe.block, " elements (", recipe.name, "), and the last block is not whole"),
      "with data, use heads, channels, latents and tokens of each rank that are "
      "multiples of the block, or tensorwise");
}

template <typename Visit>
void for_each_block(const QuantizedLayout& layout, const RecipeRow& recipe, const Visit& visit) {
  if (layout.block_rows == 0) return visit(ScaledBlock{0, 0, layout.rows, layout.width, -1});
  const std::int64_t group_bytes = bytes_of_group(layout, recipe);
  for (std::int64_t group = 0; group < layout.rows; group += layout.group_rows) {
    const std::int64_t group_end = std::min(group + layout.group_rows, layout.rows);
    std::int64_t scale_at =
        group / layout.group_rows * group_bytes + layout.group_rows * layout.width;
    for (std::int64_t row = group; row < group_end; row += layout.block_rows) {
      for (std::int64_t column = 0; column < layout.width; column += layout.block_width) {
        visit(ScaledBlock{row, column, std::min(layout.block_rows, group_end - row),
                          std::min(layout.block_width, layout.width - column), scale_at});
        scale_at += recipe.scale_bytes;
      }
    }
  }
}

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

float largest_of(const Tensor& x) {
  double largest = 0.0;
  for (const double value : values_of(x)) {
    if (std::isnan(value)) return std::numeric_limits<float>::quiet_NaN();
    largest = std::max(largest, std::fabs(value));
  }
  return static_cast<float>(largest);
}

float multiplier_of(float largest, const NarrowFormat& format) {
  if (!(largest > 0.0F) || std::isinf(largest)) return 1.0F;
  const float multiplier = static_cast<float>(format.largest) / largest;
  return std::isinf(multiplier) ? std::numeric_limits<float>::max() : multiplier;
}

void encode(const RowMatrix& x, const RecipeRow& recipe, const NarrowFormat& format,
            const QuantizedLayout& layout, float multiplier, const Tensor& bytes) {
  require_whole(layout, recipe, bytes);
  std::byte* const data = bytes.data();
  const std::int64_t group_bytes = bytes_of_group(layout, recipe);
  if (layout.block_rows == 0) bytes.set_scale(1.0F / multiplier);
  for_each_block(layout, recipe, [&](const ScaledBlock& block) {
    const auto part = x.block(block.first_row, block.first_column, block.rows, block.columns);
    float factor = multiplier;
    if (block.scale_at >= 0) {
      const auto largest = static_cast<float>(part.cwiseAbs().maxCoeff());
      const BlockScale scale = scale_of_block(largest, recipe, format);
      write_scale(data + block.scale_at, recipe, scale.inverse);
      factor = scale.multiplier;
    }
    for (std::int64_t row = 0; row < block.rows; ++row) {
      std::byte* const codes =
          data + codes_at(layout, group_bytes, block.first_row + row) + block.first_column;
      for (std::int64_t i = 0; i < block.columns; ++i) {
        codes[i] =
            static_cast<std::byte>(to_narrow(part(row, i) * static_cast<double>(factor), format));
      }
    }
  });
}

RowMatrix decode(const Tensor& bytes, const RecipeRow& recipe, const NarrowFormat& format,
                 const QuantizedLayout& layout) {
  require_whole(layout, recipe, bytes);
  const std::byte* const data = bytes.data();
  const std::int64_t group_bytes = bytes_of_group(layout, recipe);
  RowMatrix x(layout.rows, layout.width);
  for_each_block(layout, recipe, [&](const ScaledBlock& block) {
    const double scale = block.scale_at >= 0 ? read_scale(data + block.scale_at, recipe)
                                             : static_cast<double>(bytes.scale());
    for (std::int64_t row = 0; row < block.rows; ++row) {
      const std::byte* const codes =
          data + codes_at(layout, group_bytes, block.first_row + row) + block.first_column;
      for (std::int64_t i = 0; i < block.columns; ++i) {
        x(block.first_row + row, block.first_column + i) =
            scale * from_narrow(static_cast<std::uint8_t>(codes[i]), format);
      }
    }
  });
  return x;
}

}  // namespace shardsim
