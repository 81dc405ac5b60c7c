#pragma once

#include <cstdint>
#include <vector>

#include "strategies/model/model.hpp"
#include "strategies/pipeline/schedule.hpp"

// Which modules each stage of a pipeline runs. Stages are counted in layers, as people count them:
// what a model has before its layers (the embedding) rides with the first stage, what it has after
// them (the head, with the loss) with the last.
namespace shardsim {

struct StageSplit {
  /// Layers of each stage, in the order of the model; empty: as even as can be. A first stage that
  /// has the embedding and a last stage that has the head may have none.
  std::vector<std::int64_t> layers;
  /// For the even split only: embedding or head count as a layer, so their stage has one less.
  bool account_for_embedding = false;
  bool account_for_loss = false;
  /// Also for the even split: the ranks that share the stages as chunks; 0: each stage has its own.
  int num_ranks = 0;
  Placement placement = Placement::loop;
};

/// `num_layers` divided over the stages as evenly as possible: they differ by at most one. With one
/// stage per rank, the remainder goes to the first stages. With chunks it goes where it costs
/// least: (1) the rank with most layers has as few as possible; (2) as few stages as possible have
/// no layer; (3) the head's rank has the fewest, unless the head counts as a layer; (4) the other
/// ranks are as equal as possible; (5) the last ranks have more, since the first keep most
/// microbatches. The last chunks of a rank have more; on the head's rank, the first ones.
/// REQUIRES: 1 <= num_stages <= num_layers and what `split` accounts for; num_ranks divides it.
[[nodiscard]] std::vector<std::int64_t> even_stage_layers(std::int64_t num_layers,
                                                          std::int64_t num_stages,
                                                          const StageSplit& split);

/// The modules of each stage, all of them in order. Throws UsageError: more stages than layers
/// (E0711), or a list of another length or sum, or with a stage that has nothing to run (E0712).
[[nodiscard]] std::vector<ModuleRange> split_modules(const Model& model, int num_stages,
                                                     const StageSplit& split);

}  // namespace shardsim
