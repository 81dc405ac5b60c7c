#include "sim/kernel/memory_replay.hpp"

#include <optional>
#include <utility>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

std::uintptr_t owner_now() { return reinterpret_cast<std::uintptr_t>(AllocationOwner::current()); }

}  // namespace

MemoryReplay::MemoryReplay(RankState& rank) : rank_(rank) {
  for (std::size_t i = 0; i < now_.size(); ++i) {
    now_.at(i) = rank.ledger().now(static_cast<MemoryCategory>(i));
  }
  rank.ledger().set_listener(this);
}

MemoryReplay::~MemoryReplay() { rank_.ledger().set_listener(nullptr); }

void MemoryReplay::set_device(std::int64_t capacity, std::int64_t outside) {
  outside_ = outside;
  allocator_.set_capacity(capacity > outside ? capacity - outside : CachingAllocator::kUnlimited);
}

void MemoryReplay::memory_changed(MemoryCategory category, std::int64_t bytes_now) {
  if (RankTrace* trace = rank_.trace(); trace != nullptr) {
    trace->memory.push_back({.time = rank_.now(), .category = category, .bytes = bytes_now});
  }
  std::int64_t& before = now_.at(static_cast<std::size_t>(category));
  const std::int64_t change = bytes_now - std::exchange(before, bytes_now);
  if (change > 0) allocate(category, change);
  if (change < 0) release();
}

void MemoryReplay::allocate(MemoryCategory category, std::int64_t bytes) {
  const std::int64_t peak_before = allocator_.allocated_peak();
  std::optional<BlockId> block = allocator_.allocate(bytes);
  if (!block) {
    out_of_memory_ = true;
    allocator_.set_capacity(CachingAllocator::kUnlimited);
    block = allocator_.allocate(bytes);
  }
  if (!block) throw LimitError("E0314", "reserved device memory does not fit in 62 bits");
  if (allocator_.allocated_peak() > peak_before) peak_ = {category, bytes, rank_.now()};
  const std::uintptr_t owner = owner_now();
  if (spare_nodes_.empty()) {
    blocks_.emplace(owner, *block);
    return;
  }
  Blocks::node_type node = std::move(spare_nodes_.back());
  spare_nodes_.pop_back();
  node.key() = owner;
  node.mapped() = *block;
  blocks_.insert(std::move(node));
}

void MemoryReplay::release() {
  const auto found = blocks_.find(owner_now());
  if (found == blocks_.end()) return;  // Older than the replay.
  allocator_.free(found->second);
  spare_nodes_.push_back(blocks_.extract(found));
}

}  // namespace shardsim
