#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/kernel/call_site.hpp"

#include "sim/hardware/collective.hpp"
#include "sim/hardware/network_model.hpp"

#include "backends/communicator.hpp"
#include "backends/group_traffic.hpp"

// The sizes of one collective. Its price and its members' traffic follow from them, whoever
// executes it: fibers, a replayed program, or a probe of one rank.
namespace shardsim {

/// One member's elements for and from each member, and where it called.
struct AllToAllCounts {
  std::vector<std::int64_t> send;
  std::vector<std::int64_t> recv;
  CallSite site;
};

/// Spans hold as long as their owner.
struct CollectiveShape {
  const CollectiveRow* row = &collective::kBarrier;
  int size = 1;  ///< Members.
  int root = -1;
  std::int64_t count = 0;                     ///< Elements of the full buffer.
  std::int64_t width = 1;                     ///< Bytes of one.
  std::int64_t padding = 0;                   ///< See CallOptions, as for the next two.
  std::span<const std::int64_t> counts = {};  ///< Empty: equal chunks.
  std::span<const ElementRange> padding_at = {};
  std::span<const AllToAllCounts> pairs = {};  ///< By member, for a row whose path is pairs.

  /// Elements of a member's chunk.
  [[nodiscard]] std::int64_t chunk(int member) const {
    if (!counts.empty()) return counts[static_cast<std::size_t>(member)];
    return count / size;
  }
};

/// CallRecord::counts_hash of these options. 0: equal chunks, and padding at the end if there is
/// any. The counts of all_to_all are no options: they differ between members by right.
[[nodiscard]] std::uint64_t counts_hash_of(std::span<const std::int64_t> counts,
                                           std::span<const ElementRange> padding_at);

/// The question for its price. `tree`: the group's, for rows that reduce to all.
[[nodiscard]] CollectiveRequest request_of(const CollectiveShape& shape, const GroupLayout& layout,
                                           const DoubleTree* tree, Algorithm algorithm);

/// Whether every member moves the same. `algorithm`, here and below: as priced.
[[nodiscard]] bool moves_evenly(const CollectiveShape& shape, Algorithm algorithm);
/// The first member behind `member` that may move something else than it, or their number.
[[nodiscard]] int moves_evenly_until(const CollectiveShape& shape, Algorithm algorithm, int member);
/// The traffic of `member`. `tree`: read where the algorithm is that.
[[nodiscard]] Moved moved_by(const CollectiveShape& shape, Algorithm algorithm,
                             const DoubleTree* tree, int member);
/// Whether anything moves other than along the ring,
[[nodiscard]] bool leaves_ring(const CollectiveShape& shape, Algorithm algorithm);
/// and what `member` sends and receives so in `times` equal operations.
void add_off_ring(GroupLinks& links, const CollectiveShape& shape, int member,
                  std::int64_t times = 1);

}  // namespace shardsim
