#pragma once

#include <cstddef>
#include <memory>

#include <boost/context/stack_context.hpp>

// Stacks for all fibers of a run, cut from one mapping. Below each lies a guard page, so that an
// overflow is a clean fault instead of another rank's corrupted memory.
namespace shardsim {

class StackSlab {
 public:
  /// Throws LimitError when the address space or the mappings cannot be had.
  StackSlab(std::size_t count, std::size_t stack_bytes);
  ~StackSlab();
  StackSlab(const StackSlab&) = delete;
  StackSlab& operator=(const StackSlab&) = delete;

  [[nodiscard]] bool is(std::size_t count, std::size_t stack_bytes) const {
    return count == count_ && stack_bytes == stack_bytes_;
  }
  /// The stack of fiber `index`, for Boost.Context.
  [[nodiscard]] boost::context::stack_context stack(std::size_t index) const;

 private:
  std::size_t count_;
  std::size_t stack_bytes_;
  std::size_t page_;
  std::size_t stride_;
  std::size_t total_;
  char* base_ = nullptr;
};

/// A slab for one run. The slab of a small run is kept for the thread's next run of its size.
/// Exploring schedules makes thousands of runs, and mapping stacks would be half their time.
class SlabLease {
 public:
  SlabLease(std::size_t count, std::size_t stack_bytes);
  ~SlabLease();
  SlabLease(const SlabLease&) = delete;
  SlabLease& operator=(const SlabLease&) = delete;

  [[nodiscard]] StackSlab& slab() { return *slab_; }

 private:
  bool is_small_;
  std::unique_ptr<StackSlab> slab_;
};

}  // namespace shardsim
