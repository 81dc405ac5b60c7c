#pragma once

#include <memory>

#include "strategies/gradient_sync/gradient_sync.hpp"

namespace shardsim {

/// Weights whole on every rank, gradients reduced bucket by bucket while backward runs:
/// stage 0 (DDP) all_reduces; stage 1 shards the optimizer's state; stage 2 also the gradients.
/// Elements sent per rank and step, N shards: 2 (N-1)/N of the parameters; stage 2 with A
/// microbatches reduced each: (A + 1) (N-1)/N.
[[nodiscard]] std::unique_ptr<GradientSync> make_bucketed_sync(int zero_stage, const SyncPlan& plan,
                                                               Runtime& runtime, Mesh& mesh);

}  // namespace shardsim
