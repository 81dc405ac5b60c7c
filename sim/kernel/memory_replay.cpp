#include "sim/kernel/memory_replay.hpp"

#include <optional>
#include <utility>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

[[noreturn]] void throw_too_much() {
  throw LimitError("E0314", "reserved device memory does not fit in 62 bits");
}

}  // namespace

void LimitedDevice::set(const DeviceRoom& room) {
  outside_ = room.outside;
  allocator_.set_capacity(CachingAllocator::kUnlimited);
  for (const std::int64_t bytes : room.kept) {
    // Never freed, so that nobody needs its block.
    if (!allocator_.allocate(bytes)) throw_too_much();
  }
  if (room.capacity - room.outside > allocator_.reserved()) {
    allocator_.set_capacity(room.capacity - room.outside);
  }
}

BlockId LimitedDevice::allocate(MemoryCategory category, std::int64_t bytes) {
  const std::int64_t peak_before = allocator_.allocated_peak();
  std::optional<BlockId> block = allocator_.allocate(bytes);
  if (!block) {
    out_of_memory_ = true;
    allocator_.set_capacity(CachingAllocator::kUnlimited);
    block = allocator_.allocate(bytes);
  }
  if (!block) throw_too_much();
  at_peak_ = allocator_.allocated_peak() > peak_before;
  if (at_peak_) peak_ = {category, bytes, Time()};
  return *block;
}

DeviceMemoryUse LimitedDevice::use() const {
  return {.allocated_peak = allocator_.allocated_peak(),
          .reserved_peak = allocator_.reserved_peak(),
          .retries = allocator_.retries(),
          .device_peak = allocator_.reserved_peak() + outside_,
          .out_of_memory = out_of_memory_,
          .peak = peak_};
}

MemoryReplay::MemoryReplay(RankState& rank) : rank_(rank), now_(rank.ledger().now()) {
  rank.ledger().set_listener(this);
}

MemoryReplay::~MemoryReplay() { rank_.ledger().set_listener(nullptr); }

void MemoryReplay::memory_changed(MemoryCategory category, std::int64_t bytes_now) {
  if (RankTrace* trace = rank_.trace(); trace != nullptr) {
    trace->memory.push_back({.time = rank_.now(), .category = category, .bytes = bytes_now});
  }
  std::int64_t& before = now_.at(static_cast<std::size_t>(category));
  const std::int64_t change = bytes_now - std::exchange(before, bytes_now);
  if (change < 0) return release();
  if (change == 0) return;
  AllocationOwner::current() = device_.allocate(category, change) + 1;
  if (device_.at_peak()) peak_time_ = rank_.now();
}

void MemoryReplay::release() {
  const AllocationMark mark = std::exchange(AllocationOwner::current(), 0);
  if (mark == 0) return;  // Older than the replay.
  device_.free(mark - 1);
}

DeviceMemoryUse MemoryReplay::use() const {
  DeviceMemoryUse use = device_.use();
  use.peak.time = peak_time_;
  return use;
}

}  // namespace shardsim
