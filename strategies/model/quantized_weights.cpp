#include "strategies/model/quantized_weights.hpp"

#include <algorithm>
#include <vector>

#include "sim/kernel/error.hpp"

#include "strategies/model/casts.hpp"

namespace shardsim {

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
  return make_copies(low, copies, [&](CopyDirection /*direction*/) {
    return runtime.allocate(MemoryCategory::params, bytes, kQuantizedBytes);
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
      memory_op("transpose", kQuantizedBytes, 2 * made.columns.num_bytes(), KernelFamily::quantize),
      [] {});
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
