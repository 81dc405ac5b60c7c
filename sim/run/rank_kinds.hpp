#pragma once

#include <vector>

#include "backends/fiber/fold.hpp"

#include "sim/experiment/experiment.hpp"

// Finds ranks of a stage that do the same.
namespace shardsim {

/// One rank of each kind, ascending. Ranks of a kind make the same allocations and hold the same
/// bytes beside them. Different stages are different kinds. Within a stage, kinds differ by shards,
/// by parts of matrices, by the placement of groups on nodes, and by faults. If routing or changing
/// members decide what a rank holds, each rank is a kind. Only ranks that run count, and the lowest
/// represents its kind: the first rank of every stage always does. `fold`: null if all ranks run.
[[nodiscard]] std::vector<int> rank_kinds(const Experiment& experiment, const Fold* fold);

}  // namespace shardsim
