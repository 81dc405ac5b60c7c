#pragma once

#include <vector>

#include "sim/hardware/cluster.hpp"

#include "backends/fiber/fold.hpp"

#include "strategies/training/parallel_plan.hpp"

#include "scenarios/scenario.hpp"

// Which ranks of a stage do the same, and which do not.
namespace shardsim {

/// By dp_shard: the first one whose shards are like its own. REQUIRES: no experts apart.
[[nodiscard]] std::vector<int> first_alike(const ParallelPlan& plan);

/// Whether every tensor-parallel rank has an equal part of each matrix. Where one is filled up,
/// ranks differ in what they send.
[[nodiscard]] bool tensor_ranks_alike(const ParallelPlan& plan);

/// One rank of each kind, ascending: of ranks that make the same allocations, and hold the same
/// beside them. Ranks of different stages are of different kinds; those of a stage are where
/// their shards or parts of matrices differ, where groups lie on nodes in another way, and where
/// faults hit one of them. If routing, or members that change, decide what a rank holds, each one
/// is a kind. Only ranks that run, the lowest of each kind, so the first rank of every stage is
/// always one. `cluster`: of the run; `fold`: null if all ranks run.
[[nodiscard]] std::vector<int> rank_kinds(const Scenario& scenario, const ParallelPlan& plan,
                                          const Cluster& cluster, const Fold* fold);

}  // namespace shardsim
