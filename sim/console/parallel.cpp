#include "sim/console/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <sched.h>

namespace shardsim {

namespace {

// The next index and the failure of lowest index: the shared state of the threads of one call.
class Desk {
 public:
  Desk(std::size_t count, int jobs, const ParallelWork& work)
      : count_(count), jobs_(jobs), work_(work), failed_(count) {}

  // The caller's share of the work; others help where they may.
  void run() {
    serve();
    if (helpers_) helpers_->join();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  // One thread's share of the work: the next index, until there is none.
  void serve() {
    for (;;) {
      const std::size_t index = take();
      if (index == count_) return;
      try {
        work_.body(index);
        finish(index);
      } catch (...) {
        fail(index, std::current_exception());
      }
    }
  }

  std::size_t take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failure_ || next_ == count_ || (work_.stop && work_.stop())) return count_;
    const std::size_t index = next_++;
    call_helpers();
    return index;
  }

  // A thread that has taken its index calls others for the rest: as many as may work, and are not
  // there. Once there, they stay.
  void call_helpers() {
    const int wanted = work_.at_a_time ? std::min(work_.at_a_time(), jobs_) : jobs_;
    const std::size_t left = count_ - next_;
    if (left == 0 || num_threads_ >= wanted) return;
    if (!helpers_) helpers_.emplace(static_cast<std::size_t>(jobs_ - 1));
    const auto missing = static_cast<std::size_t>(wanted - num_threads_);
    for (std::size_t i = 0; i < std::min(left, missing); ++i) {
      ++num_threads_;
      boost::asio::post(*helpers_, [this] { serve(); });
    }
  }

  void finish(std::size_t index) {
    if (!work_.finished) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    work_.finished(index);
  }

  void fail(std::size_t index, std::exception_ptr failure) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failure_ && failed_ < index) return;
    failed_ = index;
    failure_ = std::move(failure);
  }

  std::size_t count_;
  int jobs_;
  const ParallelWork& work_;
  std::mutex mutex_;
  std::size_t next_ = 0;
  std::size_t failed_;
  std::exception_ptr failure_;
  int num_threads_ = 1;
  std::optional<boost::asio::thread_pool> helpers_;
};

// A handler can reach its watch in no other way.
std::atomic<bool> asked = false;
static_assert(std::atomic<bool>::is_always_lock_free);  // Or a handler must not touch it.

void note(int /*signal*/) { asked = true; }

void install(int signal, struct sigaction& before) {
  struct sigaction action {};
  action.sa_handler = note;
  sigemptyset(&action.sa_mask);
  // Once: the next signal has its old effect. Reads and writes are restarted.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(signal, &action, &before);
}

}  // namespace

void run_parallel(std::size_t count, int jobs, const ParallelWork& work) {
  const auto threads = std::min(count, static_cast<std::size_t>(jobs));
  Desk(count, static_cast<int>(std::max<std::size_t>(threads, 1)), work).run();
}

int default_jobs() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  return std::max(1, CPU_COUNT(&allowed));
}

InterruptWatch::InterruptWatch() {
  asked = false;
  install(SIGINT, interrupt_);
  install(SIGTERM, terminate_);
}

InterruptWatch::~InterruptWatch() {
  sigaction(SIGINT, &interrupt_, nullptr);
  sigaction(SIGTERM, &terminate_, nullptr);
}

bool InterruptWatch::is_asked() const { return asked; }

}  // namespace shardsim
