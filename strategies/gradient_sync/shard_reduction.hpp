#pragma once

#include "strategies/gradient_sync/flat_layout.hpp"
#include "strategies/mesh.hpp"

namespace shardsim {

/// A reduction of one chunk over the shards and then over the replicas, which follows it on its own
/// stream.
struct ShardReduction {
  Work scatter;
  Work replicate;
  void wait();
};
/// `full` is the whole chunk; its own part is left in place. Posts nothing on an axis of one rank.
[[nodiscard]] ShardReduction post_shard_reduction(const ReplicaGroups& groups, int tp_rank,
                                                  const FlatChunk& chunk, const Tensor& full,
                                                  const Tensor& part);

}  // namespace shardsim
