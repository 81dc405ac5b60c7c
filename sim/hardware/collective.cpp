#include "sim/hardware/collective.hpp"

#include <algorithm>
#include <bit>
#include <map>

namespace shardsim {

Traffic ring_traffic(const CollectiveRow& row, int size, std::int64_t total, std::int64_t previous,
                     std::int64_t own, std::int64_t next) {
  if (size == 1) return {};
  Traffic traffic;
  if (row.reduces) {
    traffic.sent += total - own;
    traffic.received += total - previous;
  }
  if (row.output == BufferPart::whole) {
    traffic.sent += total - next;
    traffic.received += total - own;
  }
  traffic.to_next = traffic.sent;
  traffic.from_previous = traffic.received;
  traffic.messages = row.ring_passes() * (std::int64_t{size} - 1);
  return traffic;
}

Traffic chain_traffic(const CollectiveRow& row, int size, int member, int root,
                      std::int64_t bytes) {
  if (size == 1) return {};
  // Position along the ring: a broadcast starts at the root, a reduction ends there.
  const int start = row.root == RootRole::source ? root : (root + 1) % size;
  const int position = (member - start + size) % size;
  Traffic traffic;
  if (position < size - 1) traffic.sent = traffic.to_next = bytes;
  if (position > 0) traffic.received = traffic.from_previous = bytes;
  traffic.messages = position < size - 1 ? 1 : 0;
  return traffic;
}

Traffic star_traffic(const CollectiveRow& row, int size, int member, int root, std::int64_t others,
                     std::int64_t own) {
  if (size == 1) return {};
  const bool gathers = row.root == RootRole::target;
  Traffic traffic;
  if (member == root) {
    (gathers ? traffic.received : traffic.sent) = others;
    traffic.messages = gathers ? 0 : size - 1;
  } else {
    (gathers ? traffic.sent : traffic.received) = own;
    traffic.messages = gathers ? 1 : 0;
  }
  return traffic;
}

double bus_factor(const CollectiveRow& row, int ranks) {
  if (row.path == CollectivePath::chain || row.path == CollectivePath::none) return 1.0;
  return std::max(row.ring_passes(), 1) * (static_cast<double>(ranks - 1) / ranks);
}

namespace {

// In-order binary tree over positions 0..size-1 with the root 0. Position p > 0 with lowest set bit
// b has its parent at p with b cleared and the next bit set, or, past the end, with b cleared.
int in_order_parent(int position, int size) {
  if (position == 0) return -1;
  const int bit = position & -position;
  const int up = (position ^ bit) | (bit << 1);
  return up >= size ? position ^ bit : up;
}

}  // namespace

DoubleTree::DoubleTree(const GroupLayout& layout) {
  std::map<int, std::vector<int>> by_node;
  for (int member = 0; member < layout.size(); ++member) {
    by_node[layout.node[static_cast<std::size_t>(member)]].push_back(member);
  }
  std::vector<std::vector<int>> nodes;
  for (auto& [_, members] : by_node) nodes.push_back(std::move(members));
  const int num_nodes = static_cast<int>(nodes.size());
  const auto size = static_cast<std::size_t>(layout.size());
  for (int tree = 0; tree < 2; ++tree) {
    // The second tree mirrors the first, so that a node with children in one has none in the other.
    const auto place = [&](int index) { return tree == 0 ? index : num_nodes - 1 - index; };
    std::vector<int>& parents = parents_[tree];
    parents.assign(size, -1);
    num_children_[tree].assign(size, 0);
    for (int index = 0; index < num_nodes; ++index) {
      const std::vector<int>& members = nodes[static_cast<std::size_t>(index)];
      for (std::size_t i = 1; i < members.size(); ++i) {
        parents[static_cast<std::size_t>(members[i])] = members[i - 1];
      }
      const int up = in_order_parent(place(index), num_nodes);
      if (up >= 0) {
        parents[static_cast<std::size_t>(members.front())] =
            nodes[static_cast<std::size_t>(place(up))].front();
      }
    }
    for (const int parent : parents) {
      if (parent >= 0) ++num_children_[tree][static_cast<std::size_t>(parent)];
    }
  }
  near_depth_ = layout.max_per_node - 1;
  far_depth_ =
      num_nodes > 1 ? static_cast<int>(std::bit_width(static_cast<unsigned>(num_nodes - 1))) : 0;
}

Traffic DoubleTree::all_reduce_traffic(int member, std::int64_t count,
                                       std::int64_t element_bytes) const {
  Traffic traffic;
  for (int tree = 0; tree < 2; ++tree) {
    const std::int64_t half = chunk_size(count, 2, tree) * element_bytes;
    const int edges =
        num_children_[tree][static_cast<std::size_t>(member)] + (parent(tree, member) >= 0 ? 1 : 0);
    traffic.sent += edges * half;
    traffic.received += edges * half;
    traffic.messages += edges;
  }
  return traffic;
}

}  // namespace shardsim
