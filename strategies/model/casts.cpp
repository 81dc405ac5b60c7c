#include "strategies/model/casts.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/kernel/error.hpp"

#include "strategies/model/block_scales.hpp"
#include "strategies/model/delayed_scales.hpp"
#include "strategies/model/quantized_data.hpp"

namespace shardsim {

namespace {

void set_runs(const Tensor& copy, std::span<const std::int64_t> runs) {
  if (!copy.defined() || runs.empty()) return;
  QuantizedScales scales;
  for (const std::int64_t rows : runs) scales.runs.push_back({rows, 1.0F});
  copy.set_scales(std::move(scales));
}

// Whether columns have other numbers than rows, and so another largest element.
bool transforms_columns(const Cast& cast) {
  return row_of(cast.low.recipe).transforms && !cast.is_weight;
}

// Adds the largest element of each run.
void add_largest_of_runs(const Cast& cast, bool is_transformed, std::vector<float>& largest) {
  const std::span<const std::int64_t> runs = cast.options.runs;
  const std::int64_t all = num_rows(cast.x);
  std::int64_t first = 0;
  for (const std::int64_t rows : runs.empty() ? std::span(&all, 1) : runs) {
    largest.push_back(largest_of(cast.x, first, rows, is_transformed));
    first += rows;
  }
}

// The largest element of each run, on all ranks that have parts of it; behind them those of
// transformed columns. Undefined if no scale needs any.
Tensor find_largest(Runtime& runtime, const Cast& cast) {
  const RecipeRow& recipe = row_of(cast.low.recipe);
  if (!recipe.reads_for_scale) return {};
  const ScaleGroups& groups = cast.options.groups;
  const bool twice = transforms_columns(cast);
  const std::int64_t num_runs = std::max<std::int64_t>(std::ssize(cast.options.runs), 1);
  Tensor largest = new_activation(runtime, {twice ? 2 * num_runs : num_runs}, DType::fp32);
  // A norm does not see what a transform makes of its output.
  const bool norm_may = cast.options.by == Written::by_norm && !recipe.transforms;
  const KernelFamily family = norm_may ? KernelFamily::amax_of_norm : KernelFamily::amax;
  runtime.compute(memory_op("amax", cast.x.dtype(), cast.x.num_bytes(), family), [&] {
    std::vector<float> found;
    add_largest_of_runs(cast, /*is_transformed=*/false, found);
    if (twice) add_largest_of_runs(cast, /*is_transformed=*/true, found);
    for (std::int64_t i = 0; i < largest.numel(); ++i) {
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
  std::vector<float> largest;
  add_largest_of_runs(cast, /*is_transformed=*/false, largest);
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
  const bool is_by_chance = recipe.rounds_by_chance && cast.options.operand == Operand::gradient;
  if (is_by_chance && cast.options.places == nullptr) {
    throw UsageError("E0680", "gradients are rounded by chance, and their places are unknown",
                     "give CastOptions::places");
  }
  const NarrowFormat& format = format_of(cast.low.recipe, cast.options.operand);
  std::vector<float> multipliers;
  if (cast.low.recipe == ScalingRecipe::delayed) multipliers = multipliers_of_past(cast);
  for (std::int64_t i = 0; largest.defined() && i < largest.numel(); ++i) {
    multipliers.push_back(multiplier_of(static_cast<float>(largest.get(i)), recipe, format));
  }
  const RowMatrix x = matrix_of(cast.x);
  const std::size_t of_copy = transforms_columns(cast) ? multipliers.size() / 2 : 0;
  const auto write = [&](CopyDirection direction, const Tensor& bytes) {
    if (!bytes.defined()) return;
    std::span<const float> own = multipliers;
    if (of_copy > 0) own = own.subspan(direction == CopyDirection::rows ? 0 : of_copy, of_copy);
    encode(x, {recipe, format, cast.is_weight, direction}, own,
           is_by_chance ? cast.options.places : nullptr, bytes);
  };
  write(CopyDirection::rows, made.rows);
  if (!made.columns.shares_storage(made.rows)) write(CopyDirection::columns, made.columns);
}

}  // namespace

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

}  // namespace shardsim
