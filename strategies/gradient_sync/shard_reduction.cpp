#include "strategies/gradient_sync/shard_reduction.hpp"

namespace shardsim {

void ShardReduction::wait() {
  // In order of their ends; the second follows the first.
  scatter.wait();
  replicate.wait();
}

ShardReduction post_shard_reduction(Mesh& mesh, const FlatChunk& chunk, const Tensor& full,
                                    const Tensor& part) {
  ShardReduction reduction;
  if (mesh.shard_group() != nullptr) {
    reduction.scatter = mesh.shard_group()->reduce_scatter(part, full, ReduceOp::sum,
                                                           chunk.call_options(mesh.tp()));
  }
  if (mesh.replicate_group() != nullptr) {
    // A shard may be partly, or wholly, padding.
    const std::int64_t begin = mesh.dp_shard() * part.numel();
    CallOptions options{.label = chunk.label.c_str(),
                        .padding = chunk.padding(mesh.tp(), begin, begin + part.numel())};
    if (reduction.scatter.pending()) options.after = &reduction.scatter;
    reduction.replicate = mesh.replicate_group()->all_reduce(part, ReduceOp::sum, options);
  }
  return reduction;
}

}  // namespace shardsim
