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

std::unique_ptr<GradientReducer> make_compressed_reducer(const SyncPlan& plan, Runtime& runtime,
                                                         Mesh& mesh) {
  return plan.compression.compressor->route.make_reducer(plan, runtime, mesh);
}

}  // namespace shardsim
