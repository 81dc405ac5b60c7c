#pragma once

#include "strategies/gradient_sync/gradient_sync.hpp"

namespace shardsim {

/// The groups over which gradients of a plan are summed: where replicas train apart, those of one
/// replica. To be asked anew for each use: a mesh may change under a training (elastic).
[[nodiscard]] inline ReplicaGroups gradient_groups(const SyncPlan& plan, const Mesh& mesh) {
  ReplicaGroups groups = mesh.replicas(plan.kind);
  if (plan.local.acts()) {
    groups.replicate = nullptr;
    groups.all = groups.shard;
  }
  return groups;
}

}  // namespace shardsim
