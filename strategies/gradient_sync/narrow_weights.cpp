#include "strategies/gradient_sync/narrow_weights.hpp"

#include "sim/kernel/error.hpp"

#include "strategies/model/low_precision.hpp"

namespace shardsim {

namespace {

std::int64_t rounded_up(std::int64_t count, std::int64_t to) { return (count + to - 1) / to * to; }

// Scales of a weight [n, k], or of those of E experts.
std::int64_t scales_of(const LowPrecision& low, const Shape& shape) {
  const RecipeRow& row = row_of(low.recipe);
  const int inputs = shape.rank() - 1;
  const std::int64_t experts = inputs == 2 ? shape[0] : 1;
  if (row.block == 0) return experts;
  const auto blocks = [&](std::int64_t size) { return (size + row.block - 1) / row.block; };
  return experts * blocks(shape[inputs - 1]) * blocks(shape[inputs]);
}

// Bytes of a weight's copy on its way: scales of square blocks are known already.
std::int64_t bytes_of_copy(const LowPrecision& low, const Shape& shape) {
  if (row_of(low.recipe).is_square()) return shape.numel();
  const int inputs = shape.rank() - 1;
  const std::int64_t experts = inputs == 2 ? shape[0] : 1;
  return experts * row_of(low.recipe).weight_bytes(shape[inputs - 1], shape[inputs]);
}

}  // namespace

Tensor shape_of_narrow(const Tensor& buffer, const SyncPlan& plan, int parameter) {
  return buffer.reshaped(buffer.offset_bytes(), plan.layout->shape(parameter), plan.weight_dtype);
}

std::int64_t wide_elements(const SyncPlan& plan) {
  std::int64_t count = plan.layout->padded();
  for (const FlatChunk& chunk : plan.layout->chunks()) {
    for (const int parameter : chunk.parameters) {
      const ParameterSpec& spec = spec_of(*plan.model, parameter);
      if (spec.low != nullptr) count -= spec.shape.numel();
    }
  }
  return count;
}

bool gathers_codes(const LowPrecision& low, bool fully_sharded) {
  return low.keeps_codes && (fully_sharded || row_of(low.recipe).is_square());
}

NarrowWeights::NarrowWeights(const SyncPlan& plan, Runtime& runtime, int num_shards,
                             bool fully_sharded)
    : plan_(plan) {
  runtime.off_the_clock([] {
    throw UsageError("E0685", "weights that are kept in 8 bits alone have prices, but no data yet",
                     "run without data, or keep weights in 16 bits, too");
  });
  std::int64_t first = 0;
  std::int64_t scale_bytes = 0;
  for (const FlatChunk& flat : plan.layout->chunks()) {
    std::int64_t wide = flat.numel;
    std::int64_t narrow = 0;
    bool has_two_copies = false;
    for (const int parameter : flat.parameters) {
      const ParameterSpec& spec = spec_of(*plan.model, parameter);
      if (spec.low == nullptr || !gathers_codes(*spec.low, fully_sharded)) continue;
      wide -= spec.shape.numel();
      narrow += bytes_of_copy(*spec.low, spec.shape);
      narrow_elements_ += spec.shape.numel() / num_shards;
      reads_for_scale_ = row_of(spec.low->recipe).reads_for_scale;
      if (row_of(spec.low->recipe).is_square()) {
        const std::int64_t scales = scales_of(*spec.low, spec.shape);
        scales_ += scales;
        if (row_of(spec.low->recipe).block > 0) {
          scale_bytes += scales * row_of(spec.low->recipe).scale_bytes;
        }
      } else {
        has_two_copies = true;
      }
    }
    const std::int64_t used = wide * size_of(plan.weight_dtype) + narrow;
    Chunk chunk{.sent = rounded_up(used, num_shards), .first = first};
    chunk.padding = chunk.sent - used;
    chunk.kept = rounded_up(used + (has_two_copies ? narrow : 0), num_shards);
    first += chunk.kept;
    chunks_.push_back(chunk);
  }
  scales_of_blocks_ = runtime.occupy(MemoryCategory::params, static_cast<double>(scale_bytes));
}

std::int64_t NarrowWeights::kept() const {
  return chunks_.empty() ? 0 : chunks_.back().first + chunks_.back().kept;
}

CallOptions NarrowWeights::call_options(int chunk) const {
  return {.label = plan_.layout->chunk(chunk).label.c_str(),
          .padding = chunks_[to_size(chunk)].padding};
}

void NarrowWeights::agree_on_scales(Runtime& runtime, Communicator* owners) const {
  if (reads_for_scale_) {
    const std::int64_t bytes = narrow_elements_ * size_of(plan_.master_dtype);
    runtime.compute(memory_op("amax", plan_.master_dtype, bytes, KernelFamily::amax), [] {});
  }
  if (owners == nullptr) return;
  const Tensor largest = runtime.allocate(MemoryCategory::comm, {scales_}, DType::fp32);
  owners->all_reduce(largest, ReduceOp::max, {.label = "largest weights"}).wait();
}

}  // namespace shardsim
