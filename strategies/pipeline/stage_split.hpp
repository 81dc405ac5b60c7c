#pragma once

#include <cstdint>
#include <vector>

#include "strategies/model/model.hpp"

// Which modules each stage of a pipeline runs. Stages are counted in layers, as people count them:
// what a model has before its layers (the embedding) rides with the first stage, what it has after
// them (the head, with the loss) with the last.
namespace shardsim {

struct StageSplit {
  /// Layers of each stage, in the order of the model; empty: as even as can be. A first stage that
  /// has the embedding and a last stage that has the head may have none.
  std::vector<std::int64_t> layers;
  /// Of the even split only: embedding or head count as a layer, so their stage has one less.
  bool account_for_embedding = false;
  bool account_for_loss = false;
};

/// `num_layers` over the stages as evenly as can be; what remains goes to the first stages.
/// REQUIRES: 1 <= num_stages <= num_layers and what `split` accounts for.
[[nodiscard]] std::vector<std::int64_t> even_stage_layers(std::int64_t num_layers,
                                                          std::int64_t num_stages,
                                                          const StageSplit& split);

/// The modules of each stage, all of them in order. Throws UsageError: more stages than layers
/// (E0711), or a list of another length or sum, or with a stage that has nothing to run (E0712).
[[nodiscard]] std::vector<ModuleRange> split_modules(const Model& model, int num_stages,
                                                     const StageSplit& split);

}  // namespace shardsim
