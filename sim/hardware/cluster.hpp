#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/hardware/device.hpp"

// A two-tier system: nodes of equal size with fast links inside and slower ones between.
namespace shardsim {

/// Full-duplex link of one GPU: bytes per second and direction, and seconds per message.
struct Link {
  double bytes_per_s = 0.0;
  double latency_s = 0.0;
};

struct Cluster {
  std::string name = "cluster";
  int num_nodes = 1;
  int gpus_per_node = 1;
  Link intra_node;
  Link inter_node;  ///< Each GPU's own share of the node's network cards.
  Device device;

  [[nodiscard]] int num_ranks() const { return num_nodes * gpus_per_node; }
  [[nodiscard]] int node_of(int rank) const { return rank / gpus_per_node; }
};

/// How a group of ranks lies on the nodes: computed once per group, shared by its members.
struct GroupLayout {
  GroupLayout(const Cluster& cluster, std::vector<int> members);

  std::vector<int> members;       ///< World ranks; position = rank in the group.
  std::vector<int> node;          ///< Node of each member.
  std::vector<bool> next_is_far;  ///< Whether the next member (cyclically) is on another node.
  int num_nodes = 1;              ///< Nodes touched.
  int rails = 1;                  ///< Fewest members on one touched node.
  int max_per_node = 1;

  [[nodiscard]] int size() const { return static_cast<int>(members.size()); }
};

}  // namespace shardsim
