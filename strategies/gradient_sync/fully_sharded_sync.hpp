#pragma once

#include <memory>

#include "strategies/gradient_sync/gradient_sync.hpp"

namespace shardsim {

/// ZeRO-3 / FSDP: everything sharded; a unit's weights are gathered before its modules run and
/// freed after, its gradients reduced as soon as its backward is done. A unit that several modules
/// use (tied embeddings) stays gathered from its first forward to its last backward.
/// Elements sent per rank and microbatch, N shards: 3 (N-1)/N of the parameters; 2 (N-1)/N where
/// units stay gathered after forward. Weights live at once: the shard and 1 + prefetch units.
[[nodiscard]] std::unique_ptr<GradientSync> make_fully_sharded_sync(const SyncPlan& plan,
                                                                    Runtime& runtime, Mesh& mesh);

}  // namespace shardsim
