#pragma once

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
  /// The backend's own object; for backends only. Null when not pending.
  [[nodiscard]] void* operation() const { return operation_; }

 private:
  void swap(Work& other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(operation_, other.operation_);
  }

  WorkOwner* owner_ = nullptr;
  void* operation_ = nullptr;
};

}  // namespace shardsim
