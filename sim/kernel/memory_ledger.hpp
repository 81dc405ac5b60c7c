#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sim/kernel/hash.hpp"

// The use of a rank's device memory, at every moment. Nothing is estimated: every tensor that a
// strategy allocates is entered here, whether it has data or not.
namespace shardsim {

enum class MemoryCategory : std::uint8_t { params, grads, optimizer, activations, comm };
inline constexpr std::size_t kNumMemoryCategories = 5;

/// "params", "grads", ... as in result metrics.
[[nodiscard]] std::string_view name_of(MemoryCategory category);

/// Bytes per category.
using MemoryUse = std::array<std::int64_t, kNumMemoryCategories>;

/// Told of every change, on ranks whose memory is traced.
class MemoryListener {
 public:
  virtual ~MemoryListener() = default;
  virtual void memory_changed(MemoryCategory category, std::int64_t bytes_now) = 0;
};

/// The ledger of one rank. Allocations count in program order, as a caching allocator would see
/// them. Sizes are bytes of tensors: allocator rounding and fragmentation are not modelled.
class MemoryLedger {
 public:
  /// Every change also rolls `hash`, so that memory is part of a run's trace hash.
  explicit MemoryLedger(RollingHash& hash) : hash_(&hash) {}

  /// Throws LimitError if the total leaves 64 bits. REQUIRES: bytes >= 0.
  void allocate(MemoryCategory category, std::int64_t bytes);
  /// REQUIRES: bytes were allocated in `category` before.
  void release(MemoryCategory category, std::int64_t bytes) noexcept;

  [[nodiscard]] std::int64_t now(MemoryCategory category) const { return now_[index(category)]; }
  [[nodiscard]] const MemoryUse& now() const { return now_; }
  [[nodiscard]] std::int64_t total_now() const { return total_; }
  /// The largest total so far, and what it consisted of when it was first reached.
  [[nodiscard]] std::int64_t peak() const { return peak_; }
  [[nodiscard]] const MemoryUse& at_peak() const { return at_peak_; }
  /// Each category's own maximum, reached perhaps at another moment than the total's.
  [[nodiscard]] const MemoryUse& category_peaks() const { return category_peaks_; }

  void set_listener(MemoryListener* listener) { listener_ = listener; }
  [[nodiscard]] bool has_listener() const { return listener_ != nullptr; }
  /// Forgets the peaks so far: they start again from what is allocated now.
  void reset_peaks();

 private:
  static std::size_t index(MemoryCategory category) { return static_cast<std::size_t>(category); }

  RollingHash* hash_;
  MemoryListener* listener_ = nullptr;
  std::int64_t total_ = 0;
  std::int64_t peak_ = 0;
  MemoryUse now_{};
  MemoryUse at_peak_{};
  MemoryUse category_peaks_{};
};

/// A word that stays with an allocation, for the ledger's listener; 0 at first.
using AllocationMark = std::uint32_t;

/// Names the mark of the memory that enters a ledger, or leaves it, while this lives. A ledger
/// knows only sizes; a listener that must tell equal allocations apart writes to the mark.
class AllocationOwner {
 public:
  /// `mark`: the allocation's own; lives as long as that.
  explicit AllocationOwner(AllocationMark& mark) noexcept { current_ = &mark; }
  AllocationOwner(const AllocationOwner&) = delete;
  AllocationOwner& operator=(const AllocationOwner&) = delete;
  ~AllocationOwner() { current_ = nullptr; }

  /// REQUIRES: within the life of one.
  [[nodiscard]] static AllocationMark& current() noexcept { return *current_; }

 private:
  // A run lives on one thread, and nothing is allocated in the course of entering something.
  static inline constinit thread_local AllocationMark* current_ = nullptr;
};

}  // namespace shardsim
