#include "strategies/gradient_sync/shard_reduction.hpp"

#include <algorithm>

namespace shardsim {

void ShardReduction::wait() {
  // In order of their ends; the second follows the first.
  scatter.wait();
  replicate.wait();
}

ShardReduction post_shard_reduction(Mesh& mesh, const FlatChunk& chunk, const Tensor& full,
                                    const Tensor& part) {
  ShardReduction reduction;
  const char* label = chunk.label.c_str();
  if (mesh.shard_group() != nullptr) {
    reduction.scatter = mesh.shard_group()->reduce_scatter(
        part, full, ReduceOp::sum, {.label = label, .padding = chunk.padded - chunk.numel});
  }
  if (mesh.replicate_group() != nullptr) {
    // Shards at the end of the chunk are partly, or wholly, padding.
    const std::int64_t real = chunk.numel - mesh.dp_shard() * part.numel();
    CallOptions options{.label = label,
                        .padding = part.numel() - std::clamp<std::int64_t>(real, 0, part.numel())};
    if (reduction.scatter.pending()) options.after = &reduction.scatter;
    reduction.replicate = mesh.replicate_group()->all_reduce(part, ReduceOp::sum, options);
  }
  return reduction;
}

}  // namespace shardsim
