#include "backends/fiber/group_links.hpp"

namespace shardsim {

void GroupLinks::send(int from, int to, std::int64_t bytes) {
  LinkCounts& link = direct_[{from, to}];
  link.sent += bytes;
  ++link.messages;
}

void GroupLinks::receive(int from, int to, std::int64_t bytes) {
  direct_[{from, to}].received += bytes;
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
