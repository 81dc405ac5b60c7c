#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sim/hardware/cluster.hpp"
#include "sim/hardware/collective_rows.hpp"

// The traffic of a collective: exact bytes and messages of every member, for the algorithm chosen.
// Payload only. Sources: rings and chains, Thakur, Rabenseifner, Gropp, "Optimization of Collective
// Communication Operations in MPICH" (2005), sections 4 and 5, and Patarasuk, Yuan, "Bandwidth
// optimal all-reduce algorithms for clusters of workstations" (2009); trees, at DoubleTree. n is
// the full buffer; c[j] is what member j contributes (all_gather) or ends with (reduce_scatter).
namespace shardsim {

/// automatic: the cheaper one. Only all_reduce has a tree.
enum class Algorithm : std::uint8_t { automatic, ring, tree };

/// The traffic of one member. `to_next` and `from_previous` are the part of `sent` and `received`
/// that travels along the ring of members in group order.
struct Traffic {
  std::int64_t sent = 0;
  std::int64_t received = 0;
  std::int64_t to_next = 0;
  std::int64_t from_previous = 0;
  std::int64_t messages = 0;
};

/// Sizes of `count` elements cut into `parts` chunks: floor, the remainder to the first chunks.
[[nodiscard]] inline std::int64_t chunk_size(std::int64_t count, int parts, int index) {
  return count / parts + (index < count % parts ? 1 : 0);
}

/// Along a ring, given the chunks that the member before, this one and the next own: a pass that
/// reduces sends all chunks but the own one, n - c[i]; one that gathers forwards all but the one
/// its successor started with, n - c[i+1].
[[nodiscard]] Traffic ring_traffic(const CollectiveRow& row, int size, std::int64_t total,
                                   std::int64_t previous, std::int64_t own, std::int64_t next);
/// Chain from the root along the ring: all but the last send n. To the root it runs backwards in
/// time, along the same direction of the ring.
[[nodiscard]] Traffic chain_traffic(const CollectiveRow& row, int size, int member, int root,
                                    std::int64_t bytes);
/// Direct messages between the root and everybody. `others`: the sum of the other members' chunks,
/// `own`: this member's chunk.
[[nodiscard]] Traffic star_traffic(const CollectiveRow& row, int size, int member, int root,
                                   std::int64_t others, std::int64_t own);

/// nccl-tests' bus bandwidth by algorithm bandwidth: the load of a link, whatever the number of
/// ranks.
[[nodiscard]] double bus_factor(const CollectiveRow& row, int ranks);

/// The double binary tree of all_reduce. Members of a node form a chain to their first member. The
/// first members form two complementary binary trees over the nodes, each for half of the data.
/// Source: Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and
/// scan" (2009); used by NCCL since 2.4.
class DoubleTree {
 public:
  explicit DoubleTree(const GroupLayout& layout);
  /// Parents of `member` in the two trees, -1 at the root.
  [[nodiscard]] int parent(int tree, int member) const {
    return parents_[static_cast<std::size_t>(tree)][static_cast<std::size_t>(member)];
  }
  /// Every edge carries its half once up and once down.
  [[nodiscard]] Traffic all_reduce_traffic(int member, std::int64_t count,
                                           std::int64_t element_bytes) const;
  /// Edges on the longest way from a leaf to the root, inside nodes and between them.
  [[nodiscard]] int near_depth() const { return near_depth_; }
  [[nodiscard]] int far_depth() const { return far_depth_; }

 private:
  std::vector<int> parents_[2];
  std::vector<int> num_children_[2];
  int near_depth_ = 0;
  int far_depth_ = 0;
};

}  // namespace shardsim
