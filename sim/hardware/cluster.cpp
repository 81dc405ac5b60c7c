#include "sim/hardware/cluster.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace shardsim {

GroupLayout::GroupLayout(const Cluster& cluster, std::vector<int> members_in)
    : members(std::move(members_in)) {
  std::map<int, int> members_on_node;
  node.reserve(members.size());
  for (const int rank : members) {
    node.push_back(cluster.node_of(rank));
    ++members_on_node[node.back()];
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    next_is_far.push_back(node[i] != node[(i + 1) % members.size()]);
  }
  num_nodes = static_cast<int>(members_on_node.size());
  rails = size();
  for (const auto& [_, count] : members_on_node) {
    rails = std::min(rails, count);
    max_per_node = std::max(max_per_node, count);
  }
}

}  // namespace shardsim
