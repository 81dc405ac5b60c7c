#pragma once

#include <cstdint>

#include "sim/hardware/cluster.hpp"

#include "strategies/mesh.hpp"

// The device memory that a rank's process holds outside its allocator.
namespace shardsim {

/// Bytes of the CUDA context and of NCCL's buffers for the communicators of a rank of this mesh.
/// sim/hardware/outside_memory.hpp has their sources. `ulysses`: ulysses_size() of the cp ranks.
/// Quick for large groups: for rings it only matters whether any member is on another node.
/// REQUIRES: mesh.size() <= cluster.num_ranks(); 0 <= rank < mesh.size(); ulysses divides mesh.cp.
[[nodiscard]] std::int64_t outside_bytes(const Cluster& cluster, const MeshShape& mesh, int ulysses,
                                         int rank);

}  // namespace shardsim
