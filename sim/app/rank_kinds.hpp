#pragma once

#include <vector>

#include "sim/hardware/cluster.hpp"

#include "backends/fiber/fold.hpp"

#include "strategies/training/parallel_plan.hpp"

#include "scenarios/scenario.hpp"

// Finds ranks of a stage that do the same.
namespace shardsim {

/// For each dp_shard, the first one with equal shards. REQUIRES: no experts apart.
[[nodiscard]] std::vector<int> first_alike(const ParallelPlan& plan);

/// Whether every tensor-parallel rank has an equal part of each matrix. Ranks with filled-up parts
/// send something different.
[[nodiscard]] bool tensor_ranks_alike(const ParallelPlan& plan);

/// One rank of each kind, ascending. Ranks of a kind make the same allocations and hold the same
/// bytes beside them. Different stages are different kinds. Within a stage, kinds differ by shards,
/// by parts of matrices, by the placement of groups on nodes, and by faults. If routing or changing
/// members decide what a rank holds, each rank is a kind. Only ranks that run count, and the lowest
/// represents its kind: the first rank of every stage always does. `cluster`: the run's; `fold`:
/// null if all ranks run.
[[nodiscard]] std::vector<int> rank_kinds(const Scenario& scenario, const ParallelPlan& plan,
                                          const Cluster& cluster, const Fold* fold);

}  // namespace shardsim
