#pragma once

#include <chrono>
#include <cstdint>

#include <boost/fiber/algo/algorithm.hpp>
#include <boost/fiber/context.hpp>
#include <boost/fiber/scheduler.hpp>

#include "sim/kernel/hash.hpp"

// The order in which fibers run: first ranks, in the order they became ready. The maestro (the
// thread's main context) runs only when no rank is ready. Boost.Fiber's own dispatcher runs only
// when asked to free finished fibers. No call here ever looks at a clock.
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

}  // namespace shardsim
