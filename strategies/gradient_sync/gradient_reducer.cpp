#include "strategies/gradient_sync/gradient_reducer.hpp"

namespace shardsim {

void ShardReduction::wait() {
  // In order of their ends; the second follows the first.
  scatter.wait();
  replicate.wait();
}

ShardReduction post_shard_reduction(const ReplicaGroups& groups, int tp_rank,
                                    const FlatChunk& chunk, const Tensor& full,
                                    const Tensor& part) {
  ShardReduction reduction;
  if (groups.shard != nullptr) {
    reduction.scatter =
        groups.shard->reduce_scatter(part, full, ReduceOp::sum, chunk.call_options(tp_rank));
  }
  if (groups.replicate != nullptr) {
    // A shard may be partly, or wholly, padding.
    const std::int64_t begin = groups.shard_rank * part.numel();
    CallOptions options{.label = chunk.label.c_str(),
                        .padding = chunk.padding(tp_rank, begin, begin + part.numel())};
    if (reduction.scatter.pending()) options.after = &reduction.scatter;
    reduction.replicate = groups.replicate->all_reduce(part, ReduceOp::sum, options);
  }
  return reduction;
}

}  // namespace shardsim
