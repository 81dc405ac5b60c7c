#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "sim/kernel/caching_allocator.hpp"
#include "sim/kernel/memory_ledger.hpp"
#include "sim/kernel/rank_state.hpp"
#include "sim/kernel/time.hpp"

namespace shardsim {

/// The device memory of one rank as the caching allocator hands it out: every allocation in the
/// rank's ledger is replayed as it happens. It only listens: ledger, hash and clock are the same
/// without it. Its memory does not grow with steps.
///
/// One pool serves all streams, and a released block is free at once. PyTorch has pools by stream,
/// and keeps a block until all other streams that use it have passed the point.
class MemoryReplay final : private MemoryListener {
 public:
  /// Listens to the rank's ledger from now on, and writes the memory of a traced rank to its trace
  /// in the rank's place. It ignores earlier allocations. REQUIRES: allocations and releases are
  /// each told in the life of an AllocationOwner.
  explicit MemoryReplay(RankState& rank);
  MemoryReplay(const MemoryReplay&) = delete;
  MemoryReplay& operator=(const MemoryReplay&) = delete;
  /// Stops listening to the ledger.
  ~MemoryReplay() override;

  /// Sets the device's memory, in bytes, and the part outside the allocator, which may have the
  /// rest from now on. Before, it has no limit, and nothing is outside. There is no limit either on
  /// a device smaller than that part: tests make up such devices.
  void set_device(std::int64_t capacity, std::int64_t outside);

  [[nodiscard]] const CachingAllocator& allocator() const { return allocator_; }
  /// The peak use of the device: reserved by the allocator, and held outside it.
  [[nodiscard]] std::int64_t device_peak() const { return allocator_.reserved_peak() + outside_; }
  /// A request did not fit. The replay went on as if the device had no end.
  [[nodiscard]] bool out_of_memory() const { return out_of_memory_; }

  /// The allocation that first brought the allocator's bytes in use to their peak.
  struct Peak {
    MemoryCategory category = MemoryCategory::params;
    std::int64_t bytes = 0;  ///< As asked for.
    Time time;               ///< Time of the rank's compute stream.
  };
  [[nodiscard]] const Peak& peak() const { return peak_; }

 private:
  // By the owner's address, and only looked up: the order of addresses means nothing.
  using Blocks = std::map<std::uintptr_t, BlockId>;
  void memory_changed(MemoryCategory category, std::int64_t bytes_now) override;
  void allocate(MemoryCategory category, std::int64_t bytes);
  void release();

  RankState& rank_;
  MemoryUse now_{};
  CachingAllocator allocator_{CachingAllocator::kUnlimited};
  Blocks blocks_;
  std::vector<Blocks::node_type> spare_nodes_;  // Nodes of released blocks.
  std::int64_t outside_ = 0;
  bool out_of_memory_ = false;
  Peak peak_;
};

}  // namespace shardsim
