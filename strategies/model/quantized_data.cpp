#include "strategies/model/quantized_data.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "sim/kernel/error.hpp"

#include "strategies/model/block_scales.hpp"
#include "strategies/model/hadamard.hpp"

namespace shardsim {

namespace {

// Rows of a transform's blocks, the last one filled up with zeros.
RowMatrix transformed(const RowMatrix& rows) {
  const std::int64_t blocks = (rows.rows() + kHadamardRows - 1) / kHadamardRows;
  RowMatrix filled = RowMatrix::Zero(blocks * kHadamardRows, rows.cols());
  filled.topRows(rows.rows()) = rows;
  return hadamard_transformed(filled);
}

[[noreturn]] void refuse_part_of_block(const QuantizedLayout& layout, const RecipeRow& recipe) {
  throw UsageError(
      "E0681",
      concat("a matrix of ", layout.rows, " x ", layout.width, " has a scale for every ",
             recipe.block, " elements (", recipe.name, "), and the last block is not whole"),
      "with data, use heads, channels, latents and tokens of each rank that are "
      "multiples of the block, or tensorwise");
}

}  // namespace

float largest_of(const Tensor& x, std::int64_t first, std::int64_t rows, bool is_transformed) {
  RowMatrix part = rows_of(x, first, rows, last_dim(x));
  if (is_transformed) part = transformed(part);
  double largest = 0.0;
  for (const double value : values_of(part)) {
    if (std::isnan(value)) return std::numeric_limits<float>::quiet_NaN();
    largest = std::max(largest, std::fabs(value));
  }
  return static_cast<float>(largest);
}

namespace {

// The bytes of one run.
struct RunBytes {
  const QuantizedForm& form;
  QuantizedLayout layout;
  std::byte* data;
};

// The elements whose largest one a block's scale is of: with tiles, all whose scales are the same.
auto scaled_part(const RowMatrix& x, const RunBytes& run, const ScaledBlock& block) {
  const std::int64_t tile = run.form.is_weight ? run.form.recipe.tile : 0;
  if (tile == 0) return x.block(block.first_row, block.first_column, block.rows, block.columns);
  const std::int64_t row = block.first_row / tile * tile;
  const std::int64_t column = block.first_column / tile * tile;
  return x.block(row, column, std::min(tile, x.rows() - row), std::min(tile, x.cols() - column));
}

void write_code(const RunBytes& run, const CodePlace& place, std::uint8_t code) {
  std::byte& at = run.data[place.byte];
  if (element_bits(run.form.recipe.dtype) == 8) {
    at = std::byte{code};
  } else if (place.is_upper) {
    at = (at & std::byte{0x0F}) | static_cast<std::byte>(code << 4U);
  } else {
    at = (at & std::byte{0xF0}) | std::byte{code};
  }
}

std::uint8_t read_code(const RunBytes& run, const CodePlace& place) {
  const auto at = static_cast<std::uint8_t>(run.data[place.byte]);
  if (element_bits(run.form.recipe.dtype) == 8) return at;
  return static_cast<std::uint8_t>(place.is_upper ? at >> 4U : at & 0x0FU);
}

void encode_run(const RowMatrix& x, const RunBytes& run, float multiplier,
                const ElementChance* chance) {
  const RecipeRow& recipe = run.form.recipe;
  const NarrowFormat& format = run.form.format;
  const std::int64_t group_bytes = bytes_of_group(run.layout, recipe);
  for_each_block(run.layout, recipe, [&](const ScaledBlock& block) {
    float factor = multiplier;
    if (block.scale_at >= 0) {
      const auto largest = static_cast<float>(scaled_part(x, run, block).cwiseAbs().maxCoeff());
      const BlockScale scale = scale_of_block(largest, recipe, format, multiplier);
      write_scale(run.data + block.scale_at, recipe, scale);
      factor = scale.multiplier;
    }
    for (std::int64_t i = 0; i < block.rows; ++i) {
      for (std::int64_t j = 0; j < block.columns; ++j) {
        const std::int64_t row = block.first_row + i;
        const std::int64_t column = block.first_column + j;
        const double value = x(row, column) * static_cast<double>(factor);
        const std::uint8_t code =
            chance == nullptr ? to_narrow(value, format)
                              : to_narrow_by_chance(value, format, chance->uniform(row, column));
        write_code(run, place_of_code(run.layout, recipe, group_bytes, row, column), code);
      }
    }
  });
}

RowMatrix decode_run(const RunBytes& run, float scale_of_all) {
  const RecipeRow& recipe = run.form.recipe;
  const std::int64_t group_bytes = bytes_of_group(run.layout, recipe);
  const auto of_all = static_cast<double>(scale_of_all);
  RowMatrix x(run.layout.rows, run.layout.width);
  for_each_block(run.layout, recipe, [&](const ScaledBlock& block) {
    const double scale =
        block.scale_at >= 0 ? read_scale(run.data + block.scale_at, recipe, of_all) : of_all;
    for (std::int64_t i = 0; i < block.rows; ++i) {
      for (std::int64_t j = 0; j < block.columns; ++j) {
        const std::int64_t row = block.first_row + i;
        const std::int64_t column = block.first_column + j;
        const std::uint8_t code =
            read_code(run, place_of_code(run.layout, recipe, group_bytes, row, column));
        x(row, column) = scale * from_narrow(code, run.form.format);
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
            const ElementPlaces* places, const Tensor& bytes) {
  QuantizedScales scales = bytes.scales();
  for (std::size_t i = 0; i < multipliers.size(); ++i) {
    (scales.runs.empty() ? scales.of_all : scales.runs[i].scale) = 1.0F / multipliers[i];
  }
  bytes.set_scales(std::move(scales));
  const auto encode_rows = [&](std::size_t number, std::int64_t first, std::int64_t rows,
                               const RunBytes& run) {
    RowMatrix filled = RowMatrix::Zero(run.layout.rows, x.cols());
    filled.topRows(rows) = x.middleRows(first, rows);
    if (form.is_transformed()) filled = hadamard_transformed(filled);
    std::optional<ElementChance> chance;
    if (places != nullptr) chance.emplace(*places, form.direction, number, first);
    encode_run(filled, run, multipliers.empty() ? 1.0F : multipliers[number],
               chance ? &*chance : nullptr);
  };
  for_each_run(bytes, form, x.rows(), x.cols(), encode_rows);
}

RowMatrix decode(const Tensor& bytes, const QuantizedForm& form, std::int64_t rows,
                 std::int64_t width) {
  const QuantizedScales& scales = bytes.scales();
  if (!scales.runs.empty()) rows = 0;
  for (const QuantizedScales::Run& run : scales.runs) rows += form.read(run.rows);
  RowMatrix x(rows, width);
  std::int64_t at = 0;
  const auto decode_rows = [&](std::size_t number, std::int64_t /*first*/, std::int64_t count,
                               const RunBytes& run) {
    const float scale = scales.runs.empty() ? scales.of_all : scales.runs[number].scale;
    x.middleRows(at, form.read(count)) = decode_run(run, scale).topRows(form.read(count));
    at += form.read(count);
  };
  for_each_run(bytes, form, rows, width, decode_rows);
  return x;
}

}  // namespace shardsim
