#include "sim/kernel/fiber_scheduler.hpp"

#include <cstdlib>
#include <memory>
#include <utility>

#include <boost/fiber/operations.hpp>
#include <cxxabi.h>

namespace shardsim {

namespace {

// Layout of abi::__cxa_eh_globals. Source: Itanium C++ ABI, "Exception Handling", 2.2.2.
struct ExceptionGlobals {
  void* caught;
  unsigned int uncaught;
};

ExceptionGlobals& exception_globals() {
  return *reinterpret_cast<ExceptionGlobals*>(abi::__cxa_get_globals());
}

// Runs `leave`, which comes back when this fiber runs again, on the same thread.
template <class Leave>
void keep_exceptions_apart(Leave leave) {
  ExceptionGlobals& globals = exception_globals();
  const ExceptionGlobals mine = globals;
  globals = {nullptr, 0};
  leave();
  globals = mine;
}

}  // namespace

RankScheduler& RankScheduler::install() {
  thread_local RankScheduler* installed = nullptr;
  if (installed == nullptr) {
    auto scheduler = std::make_unique<RankScheduler>();
    installed = scheduler.get();
    boost::fibers::context::active()->get_scheduler()->set_algo(scheduler.release());
  }
  return *installed;
}

void RankScheduler::awakened(boost::fibers::context* context) noexcept {
  if (context->is_context(boost::fibers::type::main_context)) {
    maestro_ = context;
  } else if (context->is_context(boost::fibers::type::dispatcher_context)) {
    dispatcher_ = context;
  } else if (shuffle_ && next_shuffle_bit()) {
    ranks_.push_front(*context);
  } else {
    ranks_.push_back(*context);
  }
}

void RankScheduler::set_interleaving(std::uint64_t seed) noexcept {
  shuffle_ = seed != 0;
  shuffle_state_ = RollingHash();
  shuffle_state_.add(seed);
}

bool RankScheduler::next_shuffle_bit() noexcept {
  shuffle_state_.add(std::uint64_t{0});
  return (shuffle_state_.value() & 1U) != 0;
}

boost::fibers::context* RankScheduler::pick_next() noexcept {
  if (!ranks_.empty()) {
    boost::fibers::context* next = &ranks_.front();
    ranks_.pop_front();
    return next;
  }
  if (dispatcher_first_ && dispatcher_ != nullptr) {
    dispatcher_first_ = false;
    return std::exchange(dispatcher_, nullptr);
  }
  if (maestro_ != nullptr) return std::exchange(maestro_, nullptr);
  return std::exchange(dispatcher_, nullptr);
}

bool RankScheduler::has_ready_fibers() const noexcept {
  return !ranks_.empty() || maestro_ != nullptr || dispatcher_ != nullptr;
}

void RankScheduler::suspend_until(const std::chrono::steady_clock::time_point&) noexcept {
  // Waiting here would be a hang; the maestro is always ready when it yields.
  std::abort();
}

void RankScheduler::release_finished_fibers() {
  dispatcher_first_ = true;
  boost::this_fiber::yield();
}

void RankScheduler::run_ready_ranks() {
  keep_exceptions_apart([] { boost::this_fiber::yield(); });
}

void suspend_fiber() {
  keep_exceptions_apart([] { boost::fibers::context::active()->suspend(); });
}

}  // namespace shardsim
