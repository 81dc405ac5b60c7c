#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>

// The handle of a posted communication.
namespace shardsim {

/// Implemented by a backend's communicators: what a Work does when it is waited for or dropped.
class WorkOwner {
 public:
  virtual ~WorkOwner() = default;
  virtual void wait(void* operation) = 0;
  /// The handle was dropped without a wait: a bug in the strategy, to be reported by the backend.
  virtual void abandon(void* operation) noexcept = 0;
  /// Whether it has ended by now; then a wait for it takes no time. Throws UsageError (E0511) where
  /// the backend does not tell, which is the default.
  [[nodiscard]] virtual bool has_ended(void* operation);
  /// Blocks until one of them has ended. Returns its place: of several the one that ended first,
  /// then the lowest. They are works of one rank, of whichever groups. Default as has_ended().
  [[nodiscard]] virtual std::size_t first_ended(std::span<void* const> operations);
};

/// Move-only; must be waited for exactly once (dropping it is reported as a leak). Buffers of the
/// communication must not be read, written or freed before. The communicator must outlive it.
class [[nodiscard]] Work {
 public:
  Work() = default;
  Work(WorkOwner& owner, void* operation) : owner_(&owner), operation_(operation) {}
  Work(Work&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)),
        operation_(std::exchange(other.operation_, nullptr)) {}
  Work& operator=(Work&& other) noexcept {
    Work(std::move(other)).swap(*this);
    return *this;
  }
  ~Work() {
    if (owner_ != nullptr) owner_->abandon(operation_);
  }

  /// Whether there is something to wait for.
  [[nodiscard]] bool pending() const { return owner_ != nullptr; }
  /// Returns when the communication has ended and the compute stream stands at its end. A Work that
  /// is not pending is waited for at once.
  void wait() {
    if (owner_ != nullptr) std::exchange(owner_, nullptr)->wait(operation_);
  }
  /// Whether the communication has ended by now (MPI_Test). Then it counts as waited for. In
  /// virtual time, a test that finds it under way takes a microsecond, so that a loop of tests gets
  /// on. A Work that is not pending has ended.
  [[nodiscard]] bool test() {
    if (owner_ == nullptr) return true;
    if (!owner_->has_ended(operation_)) return false;
    wait();
    return true;
  }
  /// The backend's own object; for backends only. Null when not pending.
  [[nodiscard]] void* operation() const { return operation_; }

  friend std::optional<std::size_t> wait_any(std::span<Work> works);

 private:
  void swap(Work& other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(operation_, other.operation_);
  }

  WorkOwner* owner_ = nullptr;
  void* operation_ = nullptr;
};

/// Waits for the one that ends first, and returns its place (MPI_Waitany). The others stay pending.
/// Passes over works that are not pending; nothing if none is.
std::optional<std::size_t> wait_any(std::span<Work> works);

}  // namespace shardsim
