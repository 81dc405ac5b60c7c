#include "strategies/gradient_sync/gradient_norm.hpp"

namespace shardsim {

bool is_main_copy(const ParameterSpec& spec, const MeshPlace& place) {
  return (spec.is_split() || place.tp == 0) && (!spec.tied || place.pp == 0);
}

double sum_of_squares(Runtime& runtime, const SyncPlan& plan, const Mesh& mesh, int chunk,
                      std::int64_t begin, const Tensor& values) {
  double sum = 0.0;
  const ComputeOp op{"grad_norm", ComputeKind::memory_bound, values.dtype(), 0, values.num_bytes()};
  const auto add = [&](int parameter, std::int64_t, std::int64_t count, std::int64_t at) {
    const ParameterSpec& spec = plan.model->parameters()[static_cast<std::size_t>(parameter)];
    if (!is_main_copy(spec, mesh.place())) return;
    for (std::int64_t i = at; i < at + count; ++i) sum += values.get(i) * values.get(i);
  };
  runtime.compute(op,
                  [&] { plan.layout->for_each_piece(chunk, begin, begin + values.numel(), add); });
  return sum;
}

double sum_over_owners(Runtime& runtime, Mesh& mesh, bool sharded, double value) {
  Communicator* const axes[] = {sharded ? mesh.shard_group() : nullptr, mesh.tp_group(),
                                mesh.pp_group()};
  Tensor sum;
  for (Communicator* const axis : axes) {
    if (axis == nullptr) continue;
    if (!sum.defined()) {
      sum = runtime.allocate(MemoryCategory::comm, {1}, DType::fp64);
      runtime.write_scalar(sum, value);
    }
    axis->all_reduce(sum, ReduceOp::sum, {.label = "grad_norm", .traffic = TrafficClass::scalar})
        .wait();
  }
  return sum.defined() ? runtime.read_scalar(sum) : value;
}

}  // namespace shardsim
