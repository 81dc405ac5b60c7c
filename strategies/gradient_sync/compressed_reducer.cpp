#include "strategies/gradient_sync/compressed_reducer.hpp"

namespace shardsim {

std::unique_ptr<GradientReducer> make_compressed_reducer(const SyncPlan& plan, Runtime& runtime,
                                                         Mesh& mesh) {
  return plan.compression.kind == CompressionKind::int8
             ? make_quantized_reducer(plan, runtime, mesh)
             : make_gathered_reducer(plan, runtime, mesh);
}

}  // namespace shardsim
