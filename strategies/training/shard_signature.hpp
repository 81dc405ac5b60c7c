#pragma once

#include <cstdint>
#include <vector>

#include "strategies/training/parallel_plan.hpp"

namespace shardsim {

/// All properties of shard `shard` of dense weights that its owner's program depends on: data ranks
/// with equal signatures make the same calls, of the same sizes. Chunks are cut equally, with
/// padding. A shard's content decides the rest: the number of elements that are summed over
/// tensor-parallel ranks, the pieces of tied weights, and the padding if it is reduced over
/// replicas. Add here whatever a new call takes from a shard's content. Empty if nothing is
/// sharded. REQUIRES: no experts apart; 0 <= shard < mesh.num_shards().
[[nodiscard]] std::vector<std::int64_t> shard_signature(const ParallelPlan& plan, int shard);

}  // namespace shardsim
