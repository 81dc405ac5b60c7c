#include "strategies/gradient_sync/error_feedback.hpp"

namespace shardsim {

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

}  // namespace shardsim
