#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "sim/kernel/caching_allocator.hpp"
#include "sim/kernel/memory_ledger.hpp"
#include "sim/kernel/rank_state.hpp"
#include "sim/kernel/time.hpp"

// The device memory that a rank's requests take: as they happen, or as its program lists them.
namespace shardsim {

/// The memory of one device, as far as it is asked about.
struct DeviceMemoryUse {
  /// The allocation that first brought the allocator's bytes in use to their peak.
  struct Peak {
    MemoryCategory category = MemoryCategory::params;
    std::int64_t bytes = 0;  ///< As asked for.
    Time time;               ///< Time of the rank's compute stream.

    friend bool operator==(const Peak&, const Peak&) = default;
  };
  std::int64_t allocated_peak = 0;  ///< As CachingAllocator, here and below.
  std::int64_t reserved_peak = 0;
  std::int64_t retries = 0;
  std::int64_t device_peak = 0;  ///< Reserved by the allocator, and held outside it.
  bool out_of_memory = false;    ///< A request did not fit.
  Peak peak;

  friend bool operator==(const DeviceMemoryUse&, const DeviceMemoryUse&) = default;
};

/// The memory of a device as an allocator finds it.
struct DeviceRoom {
  std::int64_t capacity = CachingAllocator::kUnlimited;  ///< Bytes of the device.
  std::int64_t outside = 0;                              ///< Those that the allocator has not.
  /// Blocks that libraries ask the allocator for before all else, and never give back.
  std::vector<std::int64_t> kept = {};

  friend auto operator<=>(const DeviceRoom&, const DeviceRoom&) = default;
};

/// A device of limited size, and the allocator that has what others leave of it. One pool serves
/// all streams, and a released block is free at once. PyTorch has pools by stream, and keeps a
/// block until all other streams that use it have passed the point.
class LimitedDevice {
 public:
  /// Without a limit.
  LimitedDevice() = default;
  /// There is no limit on a device smaller than what is outside and kept: tests make up such
  /// devices. Throws LimitError (E0314).
  explicit LimitedDevice(const DeviceRoom& room) { set(room); }
  /// The same from now on; blocks that were kept before stay.
  void set(const DeviceRoom& room);

  /// Where a request does not fit, the device has no end from then on. Throws LimitError (E0314).
  [[nodiscard]] BlockId allocate(MemoryCategory category, std::int64_t bytes);
  void free(BlockId block) { allocator_.free(block); }
  /// The last request brought the bytes in use to a new peak.
  [[nodiscard]] bool at_peak() const { return at_peak_; }

  [[nodiscard]] const CachingAllocator& allocator() const { return allocator_; }
  /// So far; the peak's time is whoever's who knows it.
  [[nodiscard]] DeviceMemoryUse use() const;

 private:
  CachingAllocator allocator_{CachingAllocator::kUnlimited};
  std::int64_t outside_ = 0;
  bool out_of_memory_ = false;
  bool at_peak_ = false;
  DeviceMemoryUse::Peak peak_;
};

/// The device memory of one rank: every allocation in its ledger is replayed as it happens. It only
/// listens: ledger, hash and clock are the same without it. Its memory does not grow with steps.
class MemoryReplay final : private MemoryListener {
 public:
  /// Listens to the rank's ledger from now on, and writes the memory of a traced rank to its trace
  /// in the rank's place. It ignores earlier allocations. It keeps the block of each allocation
  /// in its mark, plus 1. REQUIRES: allocations and releases are each told in the life of an
  /// AllocationOwner, and no other replay has listened to them.
  explicit MemoryReplay(RankState& rank);
  MemoryReplay(const MemoryReplay&) = delete;
  MemoryReplay& operator=(const MemoryReplay&) = delete;
  /// Stops listening to the ledger.
  ~MemoryReplay() override;

  /// As LimitedDevice; before, there is no limit.
  void set_device(const DeviceRoom& room) { device_.set(room); }
  [[nodiscard]] const CachingAllocator& allocator() const { return device_.allocator(); }
  [[nodiscard]] DeviceMemoryUse use() const;

 private:
  void memory_changed(MemoryCategory category, std::int64_t bytes_now) override;
  void release();

  RankState& rank_;
  MemoryUse now_;
  LimitedDevice device_;
  Time peak_time_;
};

}  // namespace shardsim
