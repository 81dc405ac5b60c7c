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
  [[nodiscard]] virtual std::unique_ptr<WatchedMemory> watch_memory(int rank, std::int64_t capacity,
                                                                    std::int64_t outside);
  /// The hashes of all ranks that run, in rank order. It does not depend on how they took turns.
  [[nodiscard]] virtual std::uint64_t trace_hash() const = 0;
  /// Visits the links that were used, group by group in the order they were made, by sender and
  /// receiver.
  virtual void for_each_link(const std::function<void(const LinkTraffic&)>& visit) const = 0;

  /// Traffic by communicator name, summed over the members of all groups of that name.
  [[nodiscard]] const std::map<std::string, TrafficCounters>& traffic() const { return traffic_; }
  [[nodiscard]] TrafficCounters total_traffic() const;
  /// Payload bytes sent, per world rank.
  [[nodiscard]] const std::vector<std::int64_t>& sent_by_rank() const { return sent_by_rank_; }
  /// Sum of the durations of a rank's communications that have been waited for; also during a run.
  [[nodiscard]] Time comm_busy(int rank) const {
    const int runs = this->rank(rank).index();
    return Time::from_picoseconds(comm_busy_[static_cast<std::size_t>(runs)]);
  }
  /// Operations of matrix products that each rank has computed; exact up to 2^53, then rounded.
  [[nodiscard]] const std::vector<double>& executed_flops() const { return executed_flops_; }
  /// The ranks' counts under a name (Runtime::tally); empty if there are none.
  [[nodiscard]] std::span<const std::int64_t> tallied(std::string_view name) const;

  /// The rank with the highest peak of device memory, the lowest of equals.
  [[nodiscard]] int fullest_rank() const;

  // For ranks and groups.
  void tally(const char* name, std::int64_t first, std::span<const std::int64_t> amounts,
             std::int64_t times = 1);
  void add_busy(int rank, Time duration) {
    add_saturating(comm_busy_[static_cast<std::size_t>(rank)], duration.picoseconds());
  }
  /// The traffic of a member, `rank`, over a communicator of this name.
  void add_traffic(const std::string& name, int rank, const TrafficCounters& counters);

 protected:
  explicit World(Cluster cluster);

  Cluster cluster_;
  std::vector<double> executed_flops_;

 private:
  std::map<std::string, TrafficCounters> traffic_;
  std::vector<std::int64_t> sent_by_rank_;
  std::vector<std::int64_t> comm_busy_;  // add_saturating
  std::map<std::string, std::vector<std::int64_t>, std::less<>> tallies_;
};

}  // namespace shardsim
