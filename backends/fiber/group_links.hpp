#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/hardware/collective.hpp"

#include "backends/traffic_counters.hpp"

namespace shardsim {

/// Payload of a group that travelled off its ring: by trees, or directly. Most groups have none.
/// Others keep one entry per used link; small groups in which all send to all keep one per pair.
class GroupLinks {
 public:
  /// Two ends of one message; each is told by the member that it is.
  void send(int from, int to, std::int64_t bytes);
  void receive(int from, int to, std::int64_t bytes);
  /// Members are about to send each other something directly, all to all.
  void expect_all_pairs(int size);
  /// `member`, of `size`, took part in an all_reduce by the double tree.
  void add_tree(int size, int member, std::int64_t count, std::int64_t element_bytes);

  /// Adds all of it. `tree`: the group's; null if add_tree was not called.
  void add_to(LinkTable& table, const DoubleTree* tree) const;

 private:
  // Every link of a tree carries the same: what one member counted holds for all links it has.
  struct TreeSide {
    std::array<std::int64_t, 2> bytes{};
    std::int64_t messages = 0;
  };
  static constexpr int kMostPaired = 256;
  [[nodiscard]] LinkCounts& link(int from, int to) {
    if (paired_ == 0) return direct_[{from, to}];
    return pairs_[static_cast<std::size_t>(from) * static_cast<std::size_t>(paired_) +
                  static_cast<std::size_t>(to)];
  }
  LinkTable direct_;
  int paired_ = 0;                 // Members, where pairs_ has an entry for each two.
  std::vector<LinkCounts> pairs_;  // A map costs as much as all else of a large plan's step.
  std::vector<TreeSide> trees_;    // By member; empty until used.
};

}  // namespace shardsim
