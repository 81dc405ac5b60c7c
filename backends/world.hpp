#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/kernel/memory_replay.hpp"
#include "sim/kernel/rank_state.hpp"

#include "sim/hardware/cluster.hpp"

#include "backends/fold.hpp"
#include "backends/traffic_counters.hpp"

// The figures of a run in virtual time, whether fibers ran its ranks or programs were replayed.
namespace shardsim {

/// One directed link that payload of a group has travelled on, whichever way: along the ring, by a
/// tree, or directly (gather and scatter, all_to_all, point-to-point). Scalars and padding are in
/// the counts per member only.
struct LinkTraffic {
  std::string_view group;  ///< Its name. Lives as long as the world.
  int from_rank = 0;       ///< World ranks.
  int to_rank = 0;
  LinkCounts counts;
};

/// The same link of a group and of each of its twins.
struct EqualLinks {
  std::string_view group;  ///< Its name. Lives as long as the world.
  const std::vector<int>& members;
  const Twins& twins;
  int from = 0;  ///< Members.
  int to = 0;
  LinkCounts counts;

  [[nodiscard]] std::int64_t size() const { return 1 + static_cast<std::int64_t>(twins.size()); }
  [[nodiscard]] LinkTraffic first() const {
    return {group, members[static_cast<std::size_t>(from)], members[static_cast<std::size_t>(to)],
            counts};
  }
};

/// The device memory of one rank of a world, which it does not outlive.
class WatchedMemory {
 public:
  virtual ~WatchedMemory() = default;
  /// So far; all of it once the world has run.
  [[nodiscard]] virtual DeviceMemoryUse use() const = 0;
};

/// Adds to picoseconds. Streams run side by side, so a sum over them may leave the range that each
/// of them keeps: then it is the largest number.
inline void add_saturating(std::int64_t& sum, std::int64_t picoseconds) {
  if (__builtin_add_overflow(sum, picoseconds, &sum)) {
    sum = std::numeric_limits<std::int64_t>::max();
  }
}

class World {
 public:
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  virtual ~World() = default;

  [[nodiscard]] const Cluster& cluster() const { return cluster_; }
  [[nodiscard]] int num_ranks() const { return cluster_.num_ranks(); }
  /// Those ranks that run, and for each rank the place among them of the one that runs for it:
  /// mostly its own. The lowest of equal ranks runs.
  [[nodiscard]] const std::vector<int>& running() const {
    return fold_ == nullptr ? everyone_ : fold_->running;
  }
  [[nodiscard]] std::size_t place_of(int rank) const {
    const auto index = static_cast<std::size_t>(rank);
    return fold_ == nullptr ? index : static_cast<std::size_t>(fold_->place_of[index]);
  }
  /// The state of the rank that runs in the place of `rank`: mostly its own.
  [[nodiscard]] virtual RankState& rank(int rank) = 0;
  [[nodiscard]] virtual const RankState& rank(int rank) const = 0;
  [[nodiscard]] virtual const MemoryLedger& ledger(int rank) const {
    return this->rank(rank).ledger();
  }
  [[nodiscard]] virtual const MemoryLedger& host_ledger(int rank) const {
    return this->rank(rank).host_ledger();
  }
  /// Watches how an allocator fills the rank's device from now on: see LimitedDevice.
  [[nodiscard]] virtual std::unique_ptr<WatchedMemory> watch_memory(int rank,
                                                                    const DeviceRoom& room);
  /// The hashes of all ranks that run, in rank order. It does not depend on how they took turns.
  [[nodiscard]] virtual std::uint64_t trace_hash() const = 0;
  /// Visits the links that were used, group by group in the order they were made, by sender and
  /// receiver.
  virtual void for_equal_links(const std::function<void(const EqualLinks&)>& visit) const = 0;
  void for_each_link(const std::function<void(const LinkTraffic&)>& visit) const;

  /// Traffic by communicator name, summed over the members of all groups of that name.
  [[nodiscard]] const std::map<std::string, TrafficCounters>& traffic() const { return traffic_; }
  [[nodiscard]] TrafficCounters total_traffic() const;
  /// Payload bytes sent, per world rank.
  [[nodiscard]] virtual std::vector<std::int64_t> sent_by_rank() const = 0;
  /// Sum of the durations of a rank's communications that have been waited for; also during a run.
  [[nodiscard]] Time comm_busy(int rank) const {
    return Time::from_picoseconds(comm_busy_[place_of(rank)]);
  }
  /// Operations of matrix products that a rank has computed; exact up to 2^53, then rounded.
  [[nodiscard]] double executed_flops(int rank) const { return executed_flops_[place_of(rank)]; }
  /// The ranks' counts under a name (Runtime::tally); empty if there are none.
  [[nodiscard]] std::span<const std::int64_t> tallied(std::string_view name) const;

  /// The rank with the highest peak of device memory, the lowest of equals.
  [[nodiscard]] int fullest_rank() const;

  // For ranks and groups.
  void tally(const char* name, std::int64_t first, std::span<const std::int64_t> amounts,
             std::int64_t times = 1);
  void add_busy(int rank, Time duration) {
    add_saturating(comm_busy_[place_of(rank)], duration.picoseconds());
  }
  /// The traffic of so many members over communicators of this name.
  void add_traffic(const std::string& name, const TrafficCounters& counters, std::int64_t members);

 protected:
  /// `fold`: null if all ranks run; else it outlives the world.
  World(Cluster cluster, const Fold* fold);
  /// Adds what a member of a group has sent to the sums of its rank and of those like it.
  static void add_sent(std::int64_t bytes, const std::vector<int>& members, const Twins& twins,
                       int member, std::vector<std::int64_t>& by_rank);

  Cluster cluster_;
  const Fold* fold_;
  std::vector<double> executed_flops_;  // By place of a rank that runs.

 private:
  std::vector<int> everyone_;  // Empty in a fold.
  std::map<std::string, TrafficCounters> traffic_;
  std::vector<std::int64_t> comm_busy_;  // By place; add_saturating.
  std::map<std::string, std::vector<std::int64_t>, std::less<>> tallies_;
};

}  // namespace shardsim
