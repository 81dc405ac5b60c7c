#include "strategies/gradient_sync/gradient_norm.hpp"

namespace shardsim {

double sum_of_squares(Runtime& runtime, const Tensor& values) {
  double sum = 0.0;
  const ComputeOp op{"grad_norm", ComputeKind::memory_bound, values.dtype(), 0, values.num_bytes()};
  runtime.compute(op, [&] {
    for (std::int64_t i = 0; i < values.numel(); ++i) sum += values.get(i) * values.get(i);
  });
  return sum;
}

double sum_over_shards(Runtime& runtime, Mesh& mesh, double value) {
  if (mesh.shard_group() == nullptr) return value;
  const Tensor sum = runtime.allocate(MemoryCategory::comm, {1}, DType::fp64);
  runtime.write_scalar(sum, value);
  mesh.shard_group()
      ->all_reduce(sum, ReduceOp::sum, {.label = "grad_norm", .traffic = TrafficClass::scalar})
      .wait();
  return runtime.read_scalar(sum);
}

}  // namespace shardsim
