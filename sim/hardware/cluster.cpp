#include "sim/hardware/cluster.hpp"

#include <algorithm>
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

// Visits the members of each node by their places on it, ascending. Most groups have their members
// in order: a list of ranks is made of others alone.
template <class Visitor>
void for_each_node(const Cluster& cluster, const std::vector<int>& members, const Visitor& visit) {
  std::vector<int> in_order;
  const bool is_sorted = std::ranges::is_sorted(members);
  if (!is_sorted) {
    in_order = members;
    std::ranges::sort(in_order);
  }
  const std::vector<int>& ranks = is_sorted ? members : in_order;
  std::vector<int> gpus;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const int node = cluster.node_of(ranks[i]);
    gpus.push_back(ranks[i] - node * cluster.gpus_per_node);
    if (i + 1 < ranks.size() && cluster.node_of(ranks[i + 1]) == node) continue;
    visit(gpus);
    gpus.clear();
  }
}

}  // namespace

GroupLayout::GroupLayout(const Cluster& cluster, std::vector<int> members_in)
    : members(std::move(members_in)) {
  node.reserve(members.size());
  for (const int rank : members) node.push_back(cluster.node_of(rank));
  next_is_far.reserve(members.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    next_is_far.push_back(node[i] != node[i + 1 == members.size() ? 0 : i + 1]);
  }
  num_nodes = 0;
  rails = size();
  nics = cluster.nics();
  for_each_node(cluster, members, [&](const std::vector<int>& gpus) {
    const auto count = static_cast<int>(gpus.size());
    ++num_nodes;
    rails = std::min(rails, count);
    max_per_node = std::max(max_per_node, count);
    nics = std::min(nics, nics_beside(cluster, gpus));
  });
  if (num_nodes > 1) {
    const auto [first, last] = std::ranges::minmax(node);
    spans_pods = cluster.pod_of(first) != cluster.pod_of(last);
  }
}

}  // namespace shardsim
