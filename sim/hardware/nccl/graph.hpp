#pragma once

#include "sim/hardware/nccl/platform.hpp"

// The channels NCCL's search finds for a group: how many, and how fast each is inside a node and
// between nodes. NCCL walks a list of speeds and keeps the one with the most channels x speed. Here
// the links that bound the count replace its walk over the topology.
namespace shardsim {

struct NcclGraph {
  int channels = 0;      ///< 0: no such graph.
  double inside = 0.0;   ///< GB/s of one channel inside a node.
  double between = 0.0;  ///< GB/s of one channel between nodes.
};

[[nodiscard]] NcclGraph ring_graph(const NcclPlatform& platform, const NcclPlacement& placement);
/// One channel inside may be faster than one between: a tree between two nodes profits.
[[nodiscard]] NcclGraph tree_graph(const NcclPlatform& platform, const NcclPlacement& placement);
/// One channel per head: a GPU of the node, or a NIC of it where there are fewer. The head of a
/// channel sends twice, so a GPU carries (channels + 1) x speed.
[[nodiscard]] NcclGraph nvls_graph(const NcclPlatform& platform, const NcclPlacement& placement);

/// The graph an algorithm runs on; PAT runs on the ring's.
[[nodiscard]] NcclGraph graph_of(NcclAlgorithm algorithm, const NcclPlatform& platform,
                                 const NcclPlacement& placement);

/// Channels that a communicator executes; each takes a multiprocessor. Twice those found, and twice
/// again between nodes from Hopper on where few fast ones were found.
[[nodiscard]] int executed_channels(const NcclPlatform& platform, const NcclPlacement& placement);

}  // namespace shardsim
