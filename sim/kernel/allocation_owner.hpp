#pragma once

namespace shardsim {

/// Names the owner of memory that enters a ledger, or leaves it, while this lives. A ledger knows
/// only sizes; a listener that must tell equal allocations apart asks here.
class AllocationOwner {
 public:
  /// `storage`: any address that no other allocation has while this one is in the ledger.
  explicit AllocationOwner(const void* storage) noexcept { current_ = storage; }
  AllocationOwner(const AllocationOwner&) = delete;
  AllocationOwner& operator=(const AllocationOwner&) = delete;
  ~AllocationOwner() { current_ = nullptr; }

  /// Null outside the life of any.
  [[nodiscard]] static const void* current() noexcept { return current_; }

 private:
  // A run lives on one thread, and nothing is allocated in the course of entering something.
  static inline constinit thread_local const void* current_ = nullptr;
};

}  // namespace shardsim
