#pragma once

#include <ctime>

#include "sim/hardware/cluster.hpp"

// Benches of worlds of ranks share a cluster and a clock.
namespace shardsim {

inline constexpr int kNode = 8;  // Ranks.

/// Nodes of kNode ranks. REQUIRES: ranks is a multiple of kNode.
inline Cluster cluster_of(int ranks, const Link& intra_node, const Link& inter_node) {
  Cluster cluster;
  cluster.num_nodes = ranks / kNode;
  cluster.gpus_per_node = kNode;
  cluster.intra_node = intra_node;
  cluster.inter_node = inter_node;
  cluster.device.memory_bytes_per_s = 1e12;
  return cluster;
}

/// The processor time of the calling thread.
inline double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace shardsim
