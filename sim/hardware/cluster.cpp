#include "sim/hardware/cluster.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace shardsim {

namespace {

// Network cards that any of a node's `gpus`, in ascending order, is next to.
int nics_beside(const Cluster& cluster, const std::vector<int>& gpus) {
  const int per_gpu = std::max(1, cluster.nics() / cluster.gpus_per_node);
  int count = 0;
  int last = -1;
  for (const int gpu : gpus) {
    const int nic = gpu * cluster.nics() / cluster.gpus_per_node;
    if (nic != last) count += per_gpu;
    last = nic;
  }
  return count;
}

}  // namespace

GroupLayout::GroupLayout(const Cluster& cluster, std::vector<int> members_in)
    : members(std::move(members_in)) {
  std::map<int, std::vector<int>> gpus_of_node;
  node.reserve(members.size());
  for (const int rank : members) {
    node.push_back(cluster.node_of(rank));
    gpus_of_node[node.back()].push_back(rank % cluster.gpus_per_node);
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    next_is_far.push_back(node[i] != node[(i + 1) % members.size()]);
  }
  num_nodes = static_cast<int>(gpus_of_node.size());
  rails = size();
  nics = cluster.nics();
  for (auto& [_, gpus] : gpus_of_node) {
    std::ranges::sort(gpus);
    const auto count = static_cast<int>(gpus.size());
    rails = std::min(rails, count);
    max_per_node = std::max(max_per_node, count);
    nics = std::min(nics, nics_beside(cluster, gpus));
  }
  // Nodes are in order.
  if (num_nodes > 1) {
    spans_pods =
        cluster.pod_of(gpus_of_node.begin()->first) != cluster.pod_of(gpus_of_node.rbegin()->first);
  }
}

}  // namespace shardsim
