#include "backends/fiber/group_links.hpp"

namespace shardsim {

void GroupLinks::send(int from, int to, std::int64_t bytes) {
  LinkCounts& counts = link(from, to);
  counts.sent += bytes;
  ++counts.messages;
}

void GroupLinks::receive(int from, int to, std::int64_t bytes) { link(from, to).received += bytes; }

void GroupLinks::expect_all_pairs(int size) {
  if (paired_ > 0 || size > kMostPaired) return;
  paired_ = size;
  pairs_.resize(static_cast<std::size_t>(size) * static_cast<std::size_t>(size));
}

void GroupLinks::add_tree(int size, int member, std::int64_t count, std::int64_t element_bytes) {
  trees_.resize(static_cast<std::size_t>(size));
  TreeSide& side = trees_[static_cast<std::size_t>(member)];
  for (int tree = 0; tree < 2; ++tree) {
    side.bytes[static_cast<std::size_t>(tree)] += chunk_size(count, 2, tree) * element_bytes;
  }
  ++side.messages;
}

void GroupLinks::add_to(LinkTable& table, const DoubleTree* tree) const {
  for (const auto& [ends, counts] : direct_) {
    LinkCounts& link = table[ends];
    link.sent += counts.sent;
    link.received += counts.received;
    link.messages += counts.messages;
  }
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    const LinkCounts& counts = pairs_[i];
    if (counts.messages == 0 && counts.received == 0) continue;
    const auto from = static_cast<int>(i) / paired_;
    const auto to = static_cast<int>(i) % paired_;
    LinkCounts& link = table[{from, to}];
    link.sent += counts.sent;
    link.received += counts.received;
    link.messages += counts.messages;
  }
  const auto add_edge = [&](int which, int from, int to) {
    const TreeSide& sender = trees_[static_cast<std::size_t>(from)];
    const TreeSide& receiver = trees_[static_cast<std::size_t>(to)];
    LinkCounts& link = table[{from, to}];
    link.sent += sender.bytes[static_cast<std::size_t>(which)];
    link.received += receiver.bytes[static_cast<std::size_t>(which)];
    link.messages += sender.messages;
  };
  for (int which = 0; which < 2; ++which) {
    for (int member = 0; member < static_cast<int>(trees_.size()); ++member) {
      const int parent = tree->parent(which, member);
      if (parent < 0) continue;
      add_edge(which, member, parent);
      add_edge(which, parent, member);
    }
  }
}

}  // namespace shardsim
