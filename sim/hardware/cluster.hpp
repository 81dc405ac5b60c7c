#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/kernel/tracked.hpp"

#include "sim/hardware/device.hpp"
#include "sim/hardware/faults/faults.hpp"

// A two-tier system: nodes of equal size with fast links inside and slower ones between.
namespace shardsim {

/// Full-duplex link of one GPU: bytes per second and direction, and seconds per message.
struct Link {
  Tracked<double> bytes_per_s = 0.0;
  Tracked<double> latency_s = 0.0;
};

struct NcclPlatform;

struct Cluster {
  std::string name = "cluster";
  int num_nodes = 1;
  int gpus_per_node = 1;
  Link intra_node;
  Link inter_node;  ///< Each GPU's own share of the node's network cards.
  /// Between two GPUs of a node that no switch joins, so a group of n has at most n - 1 of them;
  /// 0: any two have all of intra_node. NCCL's model does not read it.
  Tracked<double> pair_bytes_per_s = 0.0;
  Device device;
  /// GPU g of a node is next to network card g x cards / GPUs. If a node has more cards than GPUs,
  /// it is next to as many cards from there on. 0: one card per GPU.
  int nics_per_node = 0;
  /// Consecutive nodes under one group of switches with full bandwidth; 0: all nodes are. Between
  /// such pods a card has 1 / oversubscription of its bandwidth.
  int nodes_per_pod = 0;
  Tracked<double> oversubscription = 1.0;
  /// Further machine data for NCCL's cost model; null: the two links above price communication.
  std::shared_ptr<const NcclPlatform> nccl;
  /// The faults of some of its parts; null: none.
  std::shared_ptr<const MachineFaults> faults;

  [[nodiscard]] int num_ranks() const { return num_nodes * gpus_per_node; }
  [[nodiscard]] int node_of(int rank) const { return rank / gpus_per_node; }
  [[nodiscard]] int nics() const { return nics_per_node == 0 ? gpus_per_node : nics_per_node; }
  [[nodiscard]] int pod_of(int node) const { return nodes_per_pod == 0 ? 0 : node / nodes_per_pod; }
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
  int nics = 1;             ///< Fewest network cards of one touched node that members are next to.
  bool spans_pods = false;  ///< Whether its nodes are of several pods.

  [[nodiscard]] int size() const { return static_cast<int>(members.size()); }
};

}  // namespace shardsim
