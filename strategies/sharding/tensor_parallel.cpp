#include "strategies/sharding/tensor_parallel.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "sim/kernel/error.hpp"

#include "strategies/model/layer.hpp"

namespace shardsim {

namespace {

// Largest logit of every row, and the logit of its target where this rank has it, else 0.
void largest_and_target(Runtime& runtime, const Tensor& logits, const Tensor& targets,
                        const VocabPart& part, const Tensor& largest, const Tensor& target_logit) {
  const std::int64_t columns = last_dim(logits);
  const std::int64_t bytes =
      logits.num_bytes() + targets.num_bytes() + largest.num_bytes() + target_logit.num_bytes();
  // The software's factor for the whole loss counts here; the sum of exponentials comes on top, 2
  // bytes of 40.
  const KernelFamily family = KernelFamily::cross_entropy;
  runtime.compute(memory_op("vocab_largest", logits.dtype(), bytes, family), [&] {
    for (std::int64_t row = 0; row < largest.numel(); ++row) {
      double most = -std::numeric_limits<double>::infinity();
      for (std::int64_t i = 0; i < part.count; ++i) {
        most = std::max(most, logits.get(row * columns + i));
      }
      largest.set(row, most);
      const std::int64_t target = target_at(targets, row, part.whole) - part.first;
      const bool is_here = target >= 0 && target < part.count;
      target_logit.set(row, is_here ? logits.get(row * columns + target) : 0.0);
    }
  });
}

void sum_of_exponentials(Runtime& runtime, const Tensor& logits, const VocabPart& part,
                         const Tensor& largest, const Tensor& sum) {
  const std::int64_t columns = last_dim(logits);
  const std::int64_t bytes = logits.num_bytes() + largest.num_bytes() + sum.num_bytes();
  runtime.compute(memory_op("vocab_sum_exp", logits.dtype(), bytes), [&] {
    for (std::int64_t row = 0; row < sum.numel(); ++row) {
      double total = 0.0;
      for (std::int64_t i = 0; i < part.count; ++i) {
        total += std::exp(logits.get(row * columns + i) - largest.get(row));
      }
      sum.set(row, total);
    }
  });
}

}  // namespace

PendingTensor TensorParallel::gather(Runtime& runtime, const Tensor& shard, const Shape& whole,
                                     const char* label, CallSite site) {
  if (!sequence_parallel_) return PendingTensor(shard);
  Tensor gathered = runtime.allocate(MemoryCategory::comm, whole, shard.dtype());
  gathered.set_scales(shard.scales());  // Ranks agree on it ahead of a cast.
  Work work = group_.all_gather(gathered, shard, {.label = label}, site);
  return {std::move(gathered), shard, std::move(work)};
}

PendingTensor TensorParallel::sum(Runtime& runtime, Tensor partial, const char* label,
                                  const char* layer, CallSite site) {
  const CallOptions options{.label = label};
  if (!sequence_parallel_) {
    Work work = group_.all_reduce(partial, ReduceOp::sum, options, site);
    return {std::move(partial), {}, std::move(work)};
  }
  const Shape shape{token_shard(num_rows(partial), size(), layer), last_dim(partial)};
  Tensor shard = new_activation(runtime, shape, partial.dtype());
  Work work = group_.reduce_scatter(shard, partial, ReduceOp::sum, options, site);
  return {std::move(shard), std::move(partial), std::move(work)};
}

Tensor TensorParallel::copy_to(Runtime& runtime, const Tensor& x, const Shape& whole,
                               const char* layer, RegionInput input) {
  if (input == RegionInput::enters) {
    begin_region(layer);
  } else {
    require_region(layer);
  }
  return gather(runtime, x, whole, "column input").take();
}

Tensor TensorParallel::copy_to_by_shard(Runtime& runtime, const Tensor& x, const Shape& whole,
                                        const char* layer) {
  begin_region(layer);
  Tensor gathered = runtime.allocate(MemoryCategory::comm, whole, x.dtype());
  arriving_.emplace(runtime, group_, gathered, x, "column input");
  return gathered;
}

PendingTensor TensorParallel::copy_to_backward(Runtime& runtime, Tensor dx, const char* layer,
                                               RegionInput input) {
  require_region(layer);
  if (input == RegionInput::enters) region_ = nullptr;
  return sum(runtime, std::move(dx), "column input gradient", layer);
}

Tensor TensorParallel::reduce_from(Runtime& runtime, Tensor y, const char* layer) {
  end_region(layer);
  return sum(runtime, std::move(y), "row output", layer).take();
}

Tensor TensorParallel::reduce_from_backward(Runtime& runtime, const Tensor& dy, const Shape& whole,
                                            const char* layer) {
  begin_region(layer);
  return gather(runtime, dy, whole, "row output gradient").take();
}

PendingTensor TensorParallel::gather_tokens(Runtime& runtime, const Tensor& x, const char* label) {
  return gather(runtime, x, {num_rows(x) * size(), last_dim(x)}, label);
}

void TensorParallel::begin_region(const char* layer) {
  if (region_ != nullptr) {
    throw UsageError("E0642",
                     concat("layer ", layer, " needs its whole input, but layer ", region_,
                            " has left its output cut into ", size(), " parts"),
                     "put a row-parallel layer between the two, which sums the parts up");
  }
  region_ = layer;
}

void TensorParallel::end_region(const char* layer) {
  require_region(layer);
  region_ = nullptr;
}

void TensorParallel::require_region(const char* layer) const {
  if (region_ == nullptr) {
    throw UsageError("E0643",
                     concat("layer ", layer, " needs an input cut into ", size(),
                            " parts, but no layer before it has cut it"),
                     "put a column-parallel layer before it");
  }
}

std::int64_t token_shard(std::int64_t tokens, std::int64_t t, const char* layer) {
  if (tokens % t == 0) return tokens / t;
  throw UsageError("E0641",
                   concat("sequence parallelism cannot divide the ", tokens,
                          " tokens of a microbatch among ", t, " ranks (", layer, ")"),
                   "choose micro_batch_size x seq_len as a multiple of tp, or switch "
                   "sequence_parallel off");
}

VocabPart vocab_part(std::int64_t vocab_size, int t, int rank) {
  const std::int64_t rows = (vocab_size + t - 1) / t;
  const std::int64_t first = std::min(rank * rows, vocab_size);
  return {first, std::min(rows, vocab_size - first), vocab_size};
}

CrossEntropyOutput vocab_parallel_cross_entropy_forward(Runtime& runtime, TensorParallel& parallel,
                                                        const Tensor& logits, const Tensor& targets,
                                                        const VocabPart& part) {
  const std::int64_t rows = num_rows(logits);
  require_size("cross entropy", "number of targets", targets.numel(), rows);
  const DType dtype = statistics_dtype(logits.dtype());
  const auto per_row = [&](MemoryCategory category) {
    return runtime.allocate(category, Shape{rows}, dtype);
  };
  Communicator& group = parallel.group();
  const Tensor largest = per_row(MemoryCategory::comm);
  const Tensor target_logit = per_row(MemoryCategory::comm);
  largest_and_target(runtime, logits, targets, part, largest, target_logit);
  Work max_work = group.all_reduce(largest, ReduceOp::max, {.label = "largest logit"});
  Work target_work = group.all_reduce(target_logit, ReduceOp::sum, {.label = "target logit"});
  max_work.wait();
  const Tensor sum = per_row(MemoryCategory::comm);
  sum_of_exponentials(runtime, logits, part, largest, sum);
  Work sum_work = group.all_reduce(sum, ReduceOp::sum, {.label = "sum of exponentials"});
  target_work.wait();
  sum_work.wait();

  CrossEntropyOutput out;
  out.loss = new_activation(runtime, Shape{1}, DType::fp64);
  out.log_sum_exp = per_row(MemoryCategory::activations);
  const std::int64_t bytes = 4 * sum.num_bytes() + targets.num_bytes() + out.loss.num_bytes();
  runtime.compute(memory_op("cross_entropy", logits.dtype(), bytes), [&] {
    double loss = 0.0;
    for (std::int64_t row = 0; row < rows; ++row) {
      const double log_sum_exp = largest.get(row) + std::log(sum.get(row));
      out.log_sum_exp.set(row, log_sum_exp);
      const bool counts = target_at(targets, row, part.whole) != kIgnoredTarget;
      if (counts) loss += log_sum_exp - target_logit.get(row);
    }
    out.loss.set(0, loss);
  });
  return out;
}

}  // namespace shardsim
