#include "strategies/gradient_sync/outer_update.hpp"

namespace shardsim {

OuterUpdate::OuterUpdate(const SyncPlan& plan, Runtime& runtime, const Mesh& mesh,
                         std::int64_t total)
    : plan_(plan), runtime_(runtime), mesh_(mesh) {
  if (!plan.local.acts() || !plan.local.outer_optimizer) return;
  start_ = runtime.allocate(MemoryCategory::optimizer, {total}, plan.master_dtype);
  momentum_ = runtime.allocate(MemoryCategory::optimizer, {total}, plan.master_dtype);
}

void OuterUpdate::apply(const Part& part, const CallOptions& options) {
  const LocalTraining& local = plan_.local;
  const Tensor& master = part.master;
  if (local.outer_optimizer) {
    const ComputeOp op{"outer_gradient", ComputeKind::memory_bound, master.dtype(), 0,
                       3 * master.num_bytes()};
    runtime_.compute(op, [&] {
      for (std::int64_t i = 0; i < master.numel(); ++i) {
        master.set(i, part.start.get(i) - master.get(i));
      }
    });
  }
  Communicator* const replicas = mesh_.replicas(plan_.kind).replicate;
  if (replicas != nullptr) replicas->all_reduce(master, ReduceOp::avg, options).wait();
  if (!local.outer_optimizer) return;
  // SGD with Nesterov momentum as torch.optim.SGD has it.
  const ComputeOp op{"outer_step", ComputeKind::memory_bound, master.dtype(), 0,
                     6 * master.num_bytes()};
  runtime_.compute(op, [&] {
    for (std::int64_t i = 0; i < master.numel(); ++i) {
      const double gradient = master.get(i);
      const double buffer = local.outer_momentum * part.momentum.get(i) + gradient;
      const double direction = gradient + local.outer_momentum * buffer;
      const double weight = part.start.get(i) - local.outer_learning_rate * direction;
      part.momentum.set(i, buffer);
      part.start.set(i, weight);
      master.set(i, weight);
    }
  });
}

}  // namespace shardsim
