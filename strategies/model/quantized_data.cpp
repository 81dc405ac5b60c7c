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

std::int64_t bytes_of(const QuantizedLayout& layout, const RecipeRow& recipe) {
  if (layout.rows == 0) return 0;
  return layout.rows / layout.group_rows * bytes_of_group(layout, recipe);
}

[[noreturn]] void refuse_part_of_block(const QuantizedLayout& layout, const RecipeRow& recipe) {
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

float largest_of(const Tensor& x, std::int64_t first, std::int64_t rows) {
  const RowMatrix part = rows_of(x, first, rows, last_dim(x));
  double largest = 0.0;
  for (const double value : values_of(part)) {
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

namespace {

// The bytes of one run.
struct RunBytes {
  const QuantizedForm& form;
  QuantizedLayout layout;
  std::byte* data;
};

void encode_run(const RowMatrix& x, const RunBytes& run, float multiplier) {
  const RecipeRow& recipe = run.form.recipe;
  const NarrowFormat& format = run.form.format;
  const std::int64_t group_bytes = bytes_of_group(run.layout, recipe);
  for_each_block(run.layout, recipe, [&](const ScaledBlock& block) {
    const auto part = x.block(block.first_row, block.first_column, block.rows, block.columns);
    float factor = multiplier;
    if (block.scale_at >= 0) {
      const auto largest = static_cast<float>(part.cwiseAbs().maxCoeff());
      const BlockScale scale = scale_of_block(largest, recipe, format);
      write_scale(run.data + block.scale_at, recipe, scale.inverse);
      factor = scale.multiplier;
    }
    for (std::int64_t row = 0; row < block.rows; ++row) {
      std::byte* const codes =
          run.data + codes_at(run.layout, group_bytes, block.first_row + row) + block.first_column;
      for (std::int64_t i = 0; i < block.columns; ++i) {
        codes[i] =
            static_cast<std::byte>(to_narrow(part(row, i) * static_cast<double>(factor), format));
      }
    }
  });
}

RowMatrix decode_run(const RunBytes& run, float scale_of_all) {
  const RecipeRow& recipe = run.form.recipe;
  const std::int64_t group_bytes = bytes_of_group(run.layout, recipe);
  RowMatrix x(run.layout.rows, run.layout.width);
  for_each_block(run.layout, recipe, [&](const ScaledBlock& block) {
    const double scale = block.scale_at >= 0 ? read_scale(run.data + block.scale_at, recipe)
                                             : static_cast<double>(scale_of_all);
    for (std::int64_t row = 0; row < block.rows; ++row) {
      const std::byte* const codes =
          run.data + codes_at(run.layout, group_bytes, block.first_row + row) + block.first_column;
      for (std::int64_t i = 0; i < block.columns; ++i) {
        x(block.first_row + row, block.first_column + i) =
            scale * from_narrow(static_cast<std::uint8_t>(codes[i]), run.form.format);
      }
    }
  });
  return x;
}

// Calls `visit` with each run's number, first row, rows and bytes.
template <typename Visit>
void for_each_run(const Tensor& bytes, const QuantizedForm& form, std::int64_t rows,
                  std::int64_t width, const Visit& visit) {
  const QuantizedScales& scales = bytes.scales();
  if (scales.runs.empty()) {
    const QuantizedLayout layout = form.layout(rows, width);
    const bool is_whole = rows % layout.group_rows == 0;
    if (!is_whole || bytes_of(layout, form.recipe) != bytes.num_bytes()) {
      refuse_part_of_block(layout, form.recipe);
    }
    return visit(std::size_t{0}, std::int64_t{0}, rows, RunBytes{form, layout, bytes.data()});
  }
  std::int64_t first = 0;
  std::int64_t at = 0;
  for (std::size_t number = 0; number < scales.runs.size(); ++number) {
    const std::int64_t here = scales.runs[number].rows;
    const QuantizedLayout layout = form.layout(form.filled(here), width);
    const std::int64_t size = bytes_of(layout, form.recipe);
    if (at + size > bytes.num_bytes()) refuse_part_of_block(layout, form.recipe);
    if (here > 0) visit(number, first, here, RunBytes{form, layout, bytes.data() + at});
    first += here;
    at += size;
  }
  if (at != bytes.num_bytes()) refuse_part_of_block(form.layout(first, width), form.recipe);
}

}  // namespace

QuantizedLayout QuantizedForm::layout(std::int64_t rows, std::int64_t width) const {
  return is_weight ? layout_of_weight(recipe, direction, rows, width)
                   : layout_of_tokens(recipe, direction, rows, width);
}

void encode(const RowMatrix& x, const QuantizedForm& form, std::span<const float> multipliers,
            const Tensor& bytes) {
  QuantizedScales scales = bytes.scales();
  for (std::size_t i = 0; i < multipliers.size(); ++i) {
    (scales.runs.empty() ? scales.of_all : scales.runs[i].scale) = 1.0F / multipliers[i];
  }
  bytes.set_scales(std::move(scales));
  const auto encode_rows = [&](std::size_t number, std::int64_t first, std::int64_t rows,
                               const RunBytes& run) {
    RowMatrix filled = RowMatrix::Zero(run.layout.rows, x.cols());
    filled.topRows(rows) = x.middleRows(first, rows);
    encode_run(filled, run, multipliers.empty() ? 1.0F : multipliers[number]);
  };
  for_each_run(bytes, form, x.rows(), x.cols(), encode_rows);
}

RowMatrix decode(const Tensor& bytes, const QuantizedForm& form, std::int64_t rows,
                 std::int64_t width) {
  const QuantizedScales& scales = bytes.scales();
  if (!scales.runs.empty()) rows = 0;
  for (const QuantizedScales::Run& run : scales.runs) rows += run.rows;
  RowMatrix x(rows, width);
  const auto decode_rows = [&](std::size_t number, std::int64_t first, std::int64_t count,
                               const RunBytes& run) {
    const float scale = scales.runs.empty() ? scales.of_all : scales.runs[number].scale;
    x.middleRows(first, count) = decode_run(run, scale).topRows(count);
  };
  for_each_run(bytes, form, rows, width, decode_rows);
  return x;
}

}  // namespace shardsim
