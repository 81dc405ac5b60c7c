#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <boost/context/stack_context.hpp>
#include <boost/fiber/algo/algorithm.hpp>
#include <boost/fiber/context.hpp>
#include <boost/fiber/scheduler.hpp>

#include "sim/kernel/hash.hpp"

// How the engine runs fibers: their order, and their stacks. First come ranks, in the order they
// became ready. The maestro (the thread's main context) runs only when no rank is ready.
// Boost.Fiber's own dispatcher runs only when asked to free finished fibers. No call here ever
// looks at a clock.
namespace shardsim {

class RankScheduler final : public boost::fibers::algo::algorithm {
 public:
  /// Installs the scheduler on this thread, once, and returns it.
  static RankScheduler& install();

  void awakened(boost::fibers::context* context) noexcept override;
  boost::fibers::context* pick_next() noexcept override;
  [[nodiscard]] bool has_ready_fibers() const noexcept override;
  /// Only reached when even the maestro waits, which it never does.
  void suspend_until(const std::chrono::steady_clock::time_point&) noexcept override;
  void notify() noexcept override {}

  /// See EngineOptions::interleaving_seed.
  void set_interleaving(std::uint64_t seed) noexcept;
  /// Returns when every rank has waited or finished. From the maestro only.
  static void run_ready_ranks();
  /// Lets the dispatcher release all finished fibers, with their stacks. From the maestro only.
  void release_finished_fibers();

 private:
  bool next_shuffle_bit() noexcept;

  boost::fibers::scheduler::ready_queue_type ranks_;
  boost::fibers::context* maestro_ = nullptr;
  boost::fibers::context* dispatcher_ = nullptr;
  bool dispatcher_first_ = false;
  bool shuffle_ = false;
  RollingHash shuffle_state_;
};

/// Suspends the calling fiber until somebody schedules it. Each fiber keeps its own C++ runtime
/// record of exceptions being handled. Boost 1.81 lets fibers share it: a fiber that waits inside a
/// catch block would rethrow another fiber's exception.
void suspend_fiber();

/// Stacks for all fibers of a run, cut from one mapping. Below each lies a guard page, so that an
/// overflow is a clean fault instead of another rank's corrupted memory.
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
