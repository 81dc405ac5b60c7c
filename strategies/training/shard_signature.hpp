#pragma once

#include <cstdint>
#include <vector>

#include "strategies/training/parallel_plan.hpp"

namespace shardsim {

/// All that the program of a rank which owns shard `shard` of dense weights depends on, beside
/// what is the same for every shard: data ranks with equal signatures make the same calls, of the
/// same sizes. Chunks are cut equally, with padding; what is told here is what a shard's content
/// decides: how many of its elements are summed over tensor-parallel ranks, which pieces of tied
/// weights it has, and, where it is reduced over replicas, how much of it is padding. Whoever adds
/// a call that depends on a shard's content adds it here. Empty if nothing is sharded.
/// REQUIRES: no experts apart; 0 <= shard < mesh.num_shards().
[[nodiscard]] std::vector<std::int64_t> shard_signature(const ParallelPlan& plan, int shard);

}  // namespace shardsim
