#include "strategies/sharding/tensor_parallel.hpp"

#include <string>

#include "sim/kernel/error.hpp"

#include "strategies/model/layer.hpp"

namespace shardsim {

Tensor TensorParallel::copy_to(Runtime& runtime, const Tensor& x, const Shape& whole,
                               const char* layer) {
  begin_region(layer);
  if (!sequence_parallel_) return x;
  Tensor gathered = runtime.allocate(MemoryCategory::comm, whole, x.dtype());
  group_.all_gather(gathered, x, {.label = "column input"}).wait();
  return gathered;
}

PendingTensor TensorParallel::copy_to_backward(Runtime& runtime, Tensor dx, const char* layer) {
  end_region(layer);
  const CallOptions options{.label = "column input gradient"};
  if (!sequence_parallel_) {
    Work work = group_.all_reduce(dx, ReduceOp::sum, options);
    return {std::move(dx), {}, std::move(work)};
  }
  Tensor shard =
      runtime.allocate(MemoryCategory::activations, shard_shape(dx.shape(), layer), dx.dtype());
  Work work = group_.reduce_scatter(shard, dx, ReduceOp::sum, options);
  return {std::move(shard), std::move(dx), std::move(work)};
}

Tensor TensorParallel::reduce_from(Runtime& runtime, Tensor y, const char* layer) {
  end_region(layer);
  const CallOptions options{.label = "row output"};
  if (!sequence_parallel_) {
    group_.all_reduce(y, ReduceOp::sum, options).wait();
    return y;
  }
  Tensor shard =
      runtime.allocate(MemoryCategory::activations, shard_shape(y.shape(), layer), y.dtype());
  group_.reduce_scatter(shard, y, ReduceOp::sum, options).wait();
  return shard;
}

Tensor TensorParallel::reduce_from_backward(Runtime& runtime, const Tensor& dy, const Shape& whole,
                                            const char* layer) {
  begin_region(layer);
  if (!sequence_parallel_) return dy;
  Tensor gathered = runtime.allocate(MemoryCategory::comm, whole, dy.dtype());
  group_.all_gather(gathered, dy, {.label = "row output gradient"}).wait();
  return gathered;
}

PendingTensor TensorParallel::gather_tokens(Runtime& runtime, const Tensor& x, const char* label) {
  if (!sequence_parallel_) return PendingTensor(x);
  const Shape whole{num_rows(x) * size(), last_dim(x)};
  Tensor gathered = runtime.allocate(MemoryCategory::comm, whole, x.dtype());
  Work work = group_.all_gather(gathered, x, {.label = label});
  return {std::move(gathered), x, std::move(work)};
}

void TensorParallel::begin_region(const char* layer) {
  if (region_ != nullptr) {
    throw UsageError("E0642",
                     "layer " + std::string(layer) + " needs its whole input, but layer " +
                         region_ + " has left its output cut into " + std::to_string(size()) +
                         " parts",
                     "put a row-parallel layer between the two, which sums the parts up");
  }
  region_ = layer;
}

void TensorParallel::end_region(const char* layer) {
  if (region_ == nullptr) {
    throw UsageError("E0643",
                     "layer " + std::string(layer) + " needs an input cut into " +
                         std::to_string(size()) + " parts, but no layer before it has cut it",
                     "put a column-parallel layer before it");
  }
  region_ = nullptr;
}

Shape TensorParallel::shard_shape(const Shape& whole, const char* layer) const {
  std::int64_t tokens = 1;
  for (int axis = 0; axis + 1 < whole.rank(); ++axis) tokens *= whole[axis];
  return {token_shard(tokens, size(), layer), whole[whole.rank() - 1]};
}

std::int64_t token_shard(std::int64_t tokens, std::int64_t t, const char* layer) {
  if (tokens % t == 0) return tokens / t;
  throw UsageError("E0641",
                   "sequence parallelism cannot divide the " + std::to_string(tokens) +
                       " tokens of a microbatch among " + std::to_string(t) + " ranks (" + layer +
                       ")",
                   "choose micro_batch_size x seq_len as a multiple of tp, or switch "
                   "sequence_parallel off");
}

}  // namespace shardsim
