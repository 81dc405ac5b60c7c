#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/fiber/fold.hpp"

#include "strategies/training/parallel_plan.hpp"

// The ranks of an experiment that do the same (docs/decisions/0035-folding.md). Only Experiment
// calls alike_ranks_of and folding_of.
namespace shardsim {

class Experiment;

/// Ranks of a stage that have equal parts of everything.
struct AlikeRanks {
  std::vector<int> first;  ///< For each dp_shard, the first one with equal shards.
  bool tensor = false;     ///< All tensor-parallel ranks have equal parts of each matrix.
};
/// Ranks with padded parts send other data. REQUIRES: no experts apart.
[[nodiscard]] AlikeRanks alike_ranks_of(const ParallelPlan& plan);

/// Either how to fold, or why not, as the end of a sentence.
struct Folding {
  std::optional<Fold> fold;
  std::string obstacle;
};
[[nodiscard]] Folding folding_of(const Experiment& experiment);

/// Ranks that run themselves.
[[nodiscard]] int num_running(const Fold& fold);

}  // namespace shardsim
