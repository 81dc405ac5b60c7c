#include "strategies/model/low_precision.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "sim/kernel/error.hpp"

#include "strategies/model/delayed_scales.hpp"
#include "strategies/model/quantized_data.hpp"

namespace shardsim {

namespace {

constexpr std::array<RecipeRow, 6> kRecipes = {{
    {"none", DType::bf16, 0, 0, 1, false, false, false, false, false},
    {"delayed", DType::fp8_e4m3, 0, 0, 1, false, false, true, false, true},
    {"tensorwise", DType::fp8_e4m3, 0, 0, 1, true, false, true, false, true},
    {"blockwise", DType::fp8_e4m3, 128, 4, 128, false, true, false, false, true},
    {"mxfp8", DType::fp8_e4m3, 32, 1, 1, false, false, false, false, true},
    {"nvfp4", DType::fp4_e2m1, 16, 1, 1, true, false, false, true, false},
}};

constexpr DType kBytes = DType::fp8_e4m3;  // The type of tensors that are quantized.

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
  return runtime.allocate(MemoryCategory::activations, shape, kBytes);
}

void set_runs(const Tensor& copy, std::span<const std::int64_t> runs) {
  if (!copy.defined() || runs.empty()) return;
  QuantizedScales scales;
  for (const std::int64_t rows : runs) scales.runs.push_back({rows, 1.0F});
  copy.set_scales(std::move(scales));
}

// The copies of a tensor, each made by `make`.
template <typename Make>
QuantizedTensor copies_of(const LowPrecision& low, Copies copies, const Make& make) {
  QuantizedTensor made;
  if (!low.has_two_copies()) {
    made.rows = make(CopyDirection::rows);
    made.columns = made.rows;
    return made;
  }
  if (copies != Copies::columns) made.rows = make(CopyDirection::rows);
  if (copies != Copies::rows) made.columns = make(CopyDirection::columns);
  return made;
}

// A tensor to quantize, and the way.
struct Cast {
  const LowPrecision& low;
  const Tensor& x;
  bool is_weight;
  const CastOptions& options;
};

std::vector<float> largest_of_runs(const Cast& cast) {
  const std::span<const std::int64_t> runs = cast.options.runs;
  if (runs.empty()) return {largest_of(cast.x, 0, num_rows(cast.x))};
  std::vector<float> largest;
  std::int64_t first = 0;
  for (const std::int64_t rows : runs) {
    largest.push_back(largest_of(cast.x, first, rows));
    first += rows;
  }
  return largest;
}

// The largest element of each run of x, of the parts that others have, too; undefined if no scale
// needs it.
Tensor find_largest(Runtime& runtime, const Cast& cast) {
  const RecipeRow& recipe = row_of(cast.low.recipe);
  if (!recipe.reads_for_scale) return {};
  const ScaleGroups& groups = cast.options.groups;
  const std::span<const std::int64_t> runs = cast.options.runs;
  const auto num_runs = static_cast<std::int64_t>(std::max<std::size_t>(runs.size(), 1));
  Tensor largest = new_activation(runtime, {num_runs}, DType::fp32);
  // A norm does not see what a transform makes of its output.
  const bool norm_may = cast.options.by == Written::by_norm && !recipe.transforms;
  const KernelFamily family = norm_may ? KernelFamily::amax_of_norm : KernelFamily::amax;
  runtime.compute(memory_op("amax", cast.x.dtype(), cast.x.num_bytes(), family), [&] {
    const std::vector<float> found = largest_of_runs(cast);
    for (std::int64_t i = 0; i < num_runs; ++i) {
      largest.set(i, static_cast<double>(found[to_size(i)]));
    }
  });
  for (Communicator* group : {groups.tensor, groups.context}) {
    if (group == nullptr) continue;
    group->all_reduce(largest, ReduceOp::max, {.label = "largest element"}).wait();
  }
  return largest;
}

// Those of the runs, whose largest elements are seen now. Each matrix has equally many runs.
std::vector<float> multipliers_of_past(const Cast& cast) {
  DelayedScales* const scales = cast.options.delayed;
  if (scales == nullptr) {
    throw UsageError("E0680", "delayed scales are state of a training, and here is none",
                     "give the context ModelParallel::delayed_scales");
  }
  const OperandSite& site = cast.options.site;
  const std::vector<float> largest = largest_of_runs(cast);
  const std::int64_t of_each = std::ssize(largest) / scales->num_matrices(site);
  std::vector<float> multipliers;
  for (std::int64_t run = 0; run < std::ssize(largest); ++run) {
    multipliers.push_back(scales->multiplier(site, run / of_each));
    scales->saw(site, run / of_each, largest[to_size(run)]);
  }
  return multipliers;
}

void encode_copies(const Cast& cast, const QuantizedTensor& made, const Tensor& largest) {
  const RecipeRow& recipe = row_of(cast.low.recipe);
  if (!recipe.casts_data) {
    throw UsageError("E0680", concat(recipe.name, ": this has prices, but no data yet"),
                     "use execution.tensors meta, or another recipe");
  }
  const NarrowFormat& format = format_of(cast.low.recipe, cast.options.operand);
  std::vector<float> multipliers;
  if (cast.low.recipe == ScalingRecipe::delayed) multipliers = multipliers_of_past(cast);
  for (std::int64_t i = 0; largest.defined() && i < largest.numel(); ++i) {
    multipliers.push_back(multiplier_of(static_cast<float>(largest.get(i)), format));
  }
  const RowMatrix x = matrix_of(cast.x);
  const auto write = [&](CopyDirection direction, const Tensor& bytes) {
    if (bytes.defined()) encode(x, {recipe, format, cast.is_weight, direction}, multipliers, bytes);
  };
  write(CopyDirection::rows, made.rows);
  if (!made.columns.shares_storage(made.rows)) write(CopyDirection::columns, made.columns);
}

// Runs the kernels that make copies of x.
void run_casts(Runtime& runtime, const Cast& cast, const QuantizedTensor& made) {
  set_runs(made.rows, cast.options.runs);
  if (!made.columns.shares_storage(made.rows)) set_runs(made.columns, cast.options.runs);
  const Tensor largest = find_largest(runtime, cast);
  std::int64_t bytes = cast.x.num_bytes();
  if (made.rows.defined()) bytes += made.rows.num_bytes();
  if (cast.low.has_two_copies() && made.columns.defined()) bytes += made.columns.num_bytes();
  runtime.compute(memory_op("quantize", cast.x.dtype(), bytes, KernelFamily::quantize),
                  [&] { encode_copies(cast, made, largest); });
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
  QuantizedTensor made = copies_of(low, copies, [&](CopyDirection direction) {
    return new_copy(runtime, low, x, direction, options.runs);
  });
  run_casts(runtime, {low, x, /*is_weight=*/false, options}, made);
  return made;
}

Tensor transposed(Runtime& runtime, const Tensor& rows) {
  Tensor columns = runtime.allocate(MemoryCategory::activations, rows.shape(), kBytes);
  const std::int64_t bytes = rows.num_bytes() + columns.num_bytes();
  runtime.compute(memory_op("transpose", kBytes, bytes, KernelFamily::quantize), [&] {
    std::copy_n(rows.data(), rows.num_bytes(), columns.data());
    columns.set_scales(rows.scales());
  });
  return columns;
}

namespace {

// Rows of each expert's matrix; none if the weight is one.
std::vector<std::int64_t> rows_of_experts(const Tensor& weight) {
  const Shape& shape = weight.shape();
  if (shape.rank() < 3) return {};
  return std::vector<std::int64_t>(to_size(shape[0]), shape[1]);
}

QuantizedTensor copies_of_weight(Runtime& runtime, const LowPrecision& low, const Tensor& weight,
                                 Copies copies) {
  const std::vector<std::int64_t> experts = rows_of_experts(weight);
  const std::int64_t matrices = std::max<std::int64_t>(1, std::ssize(experts));
  const std::int64_t rows = num_rows(weight) / matrices;
  const Shape bytes{matrices * row_of(low.recipe).weight_bytes(rows, last_dim(weight))};
  return copies_of(low, copies, [&](CopyDirection /*direction*/) {
    return runtime.allocate(MemoryCategory::params, bytes, kBytes);
  });
}

void cast_weight(Runtime& runtime, const LowPrecision& low, const Tensor& weight,
                 CastOptions options, const QuantizedTensor& made) {
  const std::vector<std::int64_t> experts = rows_of_experts(weight);
  options.runs = experts;
  run_casts(runtime, {low, weight, /*is_weight=*/true, options}, made);
}

// The columns of codes that are there, if they are another copy: each square block is transposed.
// Other recipes have sent the copy that is read. Prices alone (narrow_weights.hpp).
QuantizedTensor columns_of_codes(Runtime& runtime, const LowPrecision& low, const Tensor& weight,
                                 Copies copies) {
  const bool is_there = copies == Copies::rows || !row_of(low.recipe).is_square();
  if (is_there || !low.has_two_copies()) return {};
  QuantizedTensor made = copies_of_weight(runtime, low, weight, Copies::columns);
  runtime.compute(
      memory_op("transpose", kBytes, 2 * made.columns.num_bytes(), KernelFamily::quantize), [] {});
  return made;
}

}  // namespace

QuantizedTensor quantize_weight(Runtime& runtime, const LowPrecision& low, const Tensor& weight,
                                Copies copies, const CastOptions& options) {
  if (low.keeps_codes) return columns_of_codes(runtime, low, weight, copies);
  QuantizedTensor made = copies_of_weight(runtime, low, weight, copies);
  cast_weight(runtime, low, weight, options, made);
  return made;
}

QuantizedTensor QuantizedWeights::copies_of(const Tensor& weight) const {
  for (const auto& [index, entry] : entries_) {
    if (entry.place == weight.wire_data() && entry.step == step_) return entry.copies;
  }
  throw UsageError("E0682", "a product reads a weight that no step has quantized",
                   "list the weight among the parameters of its module");
}

void QuantizedWeights::make(Runtime& runtime, const LowPrecision& low, int index,
                            const Tensor& weight, const CastOptions& options) {
  Entry& entry = entries_[index];
  if (entry.step == step_) return;
  if (low.keeps_codes) {
    entry.step = step_;
    if (entry.copies.columns.defined()) entry.copies = {};
    entry.copies = columns_of_codes(runtime, low, weight, Copies::both);
    return;
  }
  if (!entry.copies.rows.defined()) {
    entry.copies = copies_of_weight(runtime, low, weight, Copies::both);
  }
  cast_weight(runtime, low, weight, options, entry.copies);
  runtime.off_the_clock([&] { entry.place = weight.wire_data(); });
  entry.step = step_;
}

}  // namespace shardsim
