#pragma once

#include <cstdint>

#include "sim/hardware/cluster.hpp"

#include "strategies/mesh.hpp"

// What a rank's process holds of its device outside its allocator.
namespace shardsim {

/// Bytes of the CUDA context, and of NCCL's buffers of the communicators that a rank of this mesh
/// keeps; sim/hardware/outside_memory.hpp has their sources. `ulysses`: as ulysses_size() of the
/// cp ranks says. Quick for large groups: where they are rings it is enough to know whether
/// anybody is on another node.
/// REQUIRES: mesh.size() <= cluster.num_ranks(); 0 <= rank < mesh.size(); ulysses divides mesh.cp.
[[nodiscard]] std::int64_t outside_bytes(const Cluster& cluster, const MeshShape& mesh, int ulysses,
                                         int rank);

}  // namespace shardsim
