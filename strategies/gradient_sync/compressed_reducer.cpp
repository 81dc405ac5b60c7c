#include "strategies/gradient_sync/compressed_reducer.hpp"

namespace shardsim {

void add_up_parcels(Runtime& runtime, const Compressor& compressor,
                    const std::vector<Tensor>& gathered, std::int64_t ranks, const Tensor& sum) {
  std::int64_t bytes = 2 * sum.num_bytes();
  for (const Tensor& tensor : gathered) bytes += tensor.num_bytes();
  runtime.compute({"add_up_gradients", ComputeKind::memory_bound, sum.dtype(), 0, bytes}, [&] {
    for (std::int64_t i = 0; i < sum.numel(); ++i) sum.set(i, 0.0);
    for (std::int64_t rank = 0; rank < ranks; ++rank) compressor.add(sum, gathered, rank, ranks);
  });
}

ErrorFeedback::ErrorFeedback(const SyncPlan& plan, Runtime& runtime, std::int64_t numel)
    : runtime_(runtime) {
  if (!plan.compression.error_feedback) return;
  errors_ = runtime.allocate(MemoryCategory::optimizer, {numel}, plan.gradient_dtype);
}

void ErrorFeedback::add_to(const Tensor& values, std::int64_t at) {
  if (!acts()) return;
  const Tensor errors = part(at, values.numel());
  const ComputeOp op{"add_residual", ComputeKind::memory_bound, values.dtype(), 0,
                     3 * values.num_bytes()};
  runtime_.compute(op, [&] {
    for (std::int64_t i = 0; i < values.numel(); ++i) values.set(i, values.get(i) + errors.get(i));
  });
}

void ErrorFeedback::keep(const Tensor& left, std::int64_t at) {
  if (!acts()) return;
  const Tensor errors = part(at, left.numel());
  const ComputeOp op{"keep_residual", ComputeKind::memory_bound, left.dtype(), 0,
                     2 * left.num_bytes()};
  runtime_.compute(op, [&] {
    for (std::int64_t i = 0; i < left.numel(); ++i) errors.set(i, left.get(i));
  });
}

std::unique_ptr<GradientReducer> make_compressed_reducer(const SyncPlan& plan, Runtime& runtime,
                                                         Mesh& mesh) {
  return plan.compression.compressor->route.make_reducer(plan, runtime, mesh);
}

}  // namespace shardsim
