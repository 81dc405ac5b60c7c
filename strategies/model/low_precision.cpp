#include "strategies/model/low_precision.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "sim/kernel/error.hpp"

#include "strategies/model/casts.hpp"
#include "strategies/model/quantized_data.hpp"

namespace shardsim {

namespace {

constexpr std::array<RecipeRow, 6> kRecipes = {{
    {"none", DType::bf16, 0, 0, 1, false, false, false, false, false, 0},
    {"delayed", DType::fp8_e4m3, 0, 0, 1, false, false, true, false, false, 0},
    {"tensorwise", DType::fp8_e4m3, 0, 0, 1, true, false, true, false, false, 0},
    {"blockwise", DType::fp8_e4m3, 128, 4, 128, false, true, false, false, false, 0},
    {"mxfp8", DType::fp8_e4m3, 32, 1, 1, false, false, false, false, false, 0},
    {"nvfp4", DType::fp4_e2m1, 16, 1, 1, true, false, false, true, true, 16},
}};

// Bytes for a copy of x. Columns of runs are filled up.
Tensor new_copy(Runtime& runtime, const LowPrecision& low, const Tensor& x, CopyDirection direction,
                std::span<const std::int64_t> runs) {
  const RecipeRow& recipe = row_of(low.recipe);
  const std::int64_t width = recipe.row_bytes(last_dim(x));
  Shape shape = with_last(x.shape(), width);
  if (direction == CopyDirection::columns && !runs.empty()) {
    std::int64_t rows = 0;
    for (const std::int64_t run : runs) rows += recipe.filled(run);
    shape = Shape{rows, width};
  }
  return runtime.allocate(MemoryCategory::activations, shape, kQuantizedBytes);
}

}  // namespace

std::span<const RecipeRow> all_recipes() { return kRecipes; }

const RecipeRow& row_of(ScalingRecipe recipe) {
  return kRecipes.at(static_cast<std::size_t>(recipe));
}

const NarrowFormat& format_of(ScalingRecipe recipe, Operand operand) {
  const RecipeRow& row = row_of(recipe);
  if (row.dtype == DType::fp4_e2m1) return kE2m1;
  return operand == Operand::gradient && row.widens_gradients ? kE5m2 : kE4m3;
}

Tensor dequantize(Runtime& runtime, const LowPrecision& low, const Tensor& rows, std::int64_t width,
                  DType dtype, Operand operand) {
  Tensor x = new_activation(runtime, {num_rows(rows), width}, dtype);
  const std::int64_t bytes = rows.num_bytes() + x.num_bytes();
  runtime.compute(memory_op("dequantize", dtype, bytes, KernelFamily::quantize), [&] {
    const QuantizedForm form{row_of(low.recipe), format_of(low.recipe, operand),
                             /*is_weight=*/false, CopyDirection::rows};
    store(x, values_of(decode(rows, form, num_rows(rows), width)));
  });
  return x;
}

QuantizedTensor quantize(Runtime& runtime, const LowPrecision& low, const Tensor& x, Copies copies,
                         const CastOptions& options) {
  QuantizedTensor made = make_copies(low, copies, [&](CopyDirection direction) {
    return new_copy(runtime, low, x, direction, options.runs);
  });
  run_casts(runtime, {low, x, /*is_weight=*/false, options}, made);
  return made;
}

Tensor transposed(Runtime& runtime, const Tensor& rows) {
  Tensor columns = runtime.allocate(MemoryCategory::activations, rows.shape(), kQuantizedBytes);
  const std::int64_t bytes = rows.num_bytes() + columns.num_bytes();
  runtime.compute(memory_op("transpose", kQuantizedBytes, bytes, KernelFamily::quantize), [&] {
    std::copy_n(rows.data(), rows.num_bytes(), columns.data());
    columns.set_scales(rows.scales());
  });
  return columns;
}

}  // namespace shardsim
