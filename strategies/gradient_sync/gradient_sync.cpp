#include "strategies/gradient_sync/gradient_sync.hpp"

#include <string>

#include "sim/kernel/error.hpp"

#include "strategies/gradient_sync/bucketed_sync.hpp"
#include "strategies/gradient_sync/fully_sharded_sync.hpp"

namespace shardsim {

std::unique_ptr<GradientSync> make_gradient_sync(int zero_stage, const SyncPlan& plan,
                                                 Runtime& runtime, Mesh& mesh) {
  if (zero_stage == 3) return make_fully_sharded_sync(plan, runtime, mesh);
  if (zero_stage >= 0 && zero_stage <= 2) {
    return make_bucketed_sync(zero_stage, plan, runtime, mesh);
  }
  throw UsageError("E0702", "zero_stage " + std::to_string(zero_stage) + " does not exist",
                   "use 0 (DDP), 1, 2 or 3");
}

FlatLayout make_layout(int zero_stage, const Model& model, const Model& uncut,
                       const MeshShape& mesh, DType gradient_dtype, std::int64_t bucket_bytes,
                       std::int64_t first_bucket_bytes, std::int64_t minimum_numel) {
  if (zero_stage == 3) return FlatLayout::units(model, mesh.num_shards());
  return FlatLayout::buckets(model, gradient_ready_order(uncut, gradient_dtype), bucket_bytes,
                             first_bucket_bytes, gradient_dtype,
                             zero_stage == 0 ? 1 : mesh.num_shards(), minimum_numel);
}

}  // namespace shardsim
