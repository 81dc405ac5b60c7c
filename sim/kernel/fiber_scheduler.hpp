#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <boost/context/fiber.hpp>
#include <boost/context/stack_context.hpp>

#include "sim/kernel/hash.hpp"

// How the engine runs fibers: their order, and their stacks. First come ranks, in the order they
// became ready. The maestro (the caller's own context) runs only when no rank is ready. A fiber
// that leaves goes straight to the next one; no call here ever looks at a clock.
namespace shardsim {

/// Layout of abi::__cxa_eh_globals: what this thread's C++ runtime knows of exceptions being
/// handled. Source: Itanium C++ ABI, "Exception Handling", 2.2.2.
struct ExceptionGlobals {
  void* caught = nullptr;
  unsigned int uncaught = 0;
};

/// Where a rank, or the maestro, goes on, and its place among those that are ready.
struct RankFiber {
  boost::context::fiber rest;  // Empty while it runs.
  RankFiber* next = nullptr;
  const char* frame = nullptr;  // On its stack, of the function in which it left.
};

class StackSlab;

/// The fibers of one run, all of one thread.
class RankScheduler {
 public:
  /// `interleaving_seed`: see EngineOptions.
  RankScheduler(std::size_t ranks, std::uint64_t interleaving_seed);
  RankScheduler(const RankScheduler&) = delete;
  RankScheduler& operator=(const RankScheduler&) = delete;

  /// Makes the next fiber, which is ready and will run `body`. To be called once per rank.
  template <class Body>
  RankFiber& start(const StackSlab& stacks, Body body);
  /// `fiber`, which is suspended, or is about to suspend itself, may go on.
  void ready(RankFiber& fiber) {
    if (shuffle_ && next_shuffle_bit()) {
      push_front(fiber);
    } else {
      push_back(fiber);
    }
  }
  /// `fiber` will soon be ready: what it reads first is fetched into the caches meanwhile.
  static void expect(const RankFiber& fiber) {
    if (fiber.frame == nullptr) return;  // It has not run yet.
    for (std::ptrdiff_t line = -1; line < 10; ++line) {
      __builtin_prefetch(fiber.frame + 64 * line, 1);
    }
  }
  [[nodiscard]] bool has_ready() const { return first_ != nullptr; }
  /// Suspends the calling fiber until it is ready and its turn comes.
  void suspend() {
    RankFiber& next = take_next();
    if (&next != running_) leave_for(next);
  }
  /// Returns when every rank has waited or finished. From the maestro only.
  void run_ready_ranks() {
    if (has_ready()) leave_for(take_next());
  }

 private:
  // Hands a fiber its stack; all of them go when the slab goes.
  struct GivenStack {
    using traits_type = boost::context::stack_traits;
    boost::context::stack_context stack;
    boost::context::stack_context allocate() { return stack; }
    void deallocate(boost::context::stack_context&) noexcept {}
  };
  void push_front(RankFiber& fiber) {
    fiber.next = first_;
    if (first_ == nullptr) last_ = &fiber;
    first_ = &fiber;
  }
  void push_back(RankFiber& fiber) {
    fiber.next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = &fiber;
    last_ = &fiber;
  }
  RankFiber& take_next() {
    if (first_ == nullptr) return maestro_;
    return *std::exchange(first_, first_->next);
  }
  [[nodiscard]] bool next_shuffle_bit();
  void leave_for(RankFiber& next);
  // Another fiber has left for this one: it will go on with `rest`, which is empty if it has ended.
  void arrive(boost::context::fiber&& rest) { left_->rest = std::move(rest); }

  std::vector<RankFiber> fibers_;  // By rank; as many as there will be, so that none moves.
  RankFiber maestro_;
  RankFiber* running_ = &maestro_;
  RankFiber* left_ = nullptr;   // The one that ran before.
  RankFiber* first_ = nullptr;  // The ready ones, linked.
  RankFiber* last_ = nullptr;
  ExceptionGlobals& exceptions_;  // Those of this thread.
  bool shuffle_ = false;
  RollingHash shuffle_state_;
};

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

// Each fiber keeps its own C++ runtime record of exceptions being handled. Boost.Context lets
// fibers share it: a fiber that waits inside a catch block would rethrow another one's exception.
inline void RankScheduler::leave_for(RankFiber& next) {
  const ExceptionGlobals mine = std::exchange(exceptions_, {});
  left_ = std::exchange(running_, &next);
  left_->frame = static_cast<const char*>(__builtin_frame_address(0));
  arrive(std::move(next.rest).resume());
  exceptions_ = mine;
}

template <class Body>
RankFiber& RankScheduler::start(const StackSlab& stacks, Body body) {
  const auto stack = stacks.stack(fibers_.size());
  RankFiber& fiber = fibers_.emplace_back();
  fiber.rest = boost::context::fiber(std::allocator_arg, GivenStack{stack},
                                     [this, body](boost::context::fiber&& from) {
                                       arrive(std::move(from));
                                       body();
                                       left_ = std::exchange(running_, &take_next());
                                       return std::move(running_->rest);
                                     });
  ready(fiber);
  return fiber;
}

}  // namespace shardsim
