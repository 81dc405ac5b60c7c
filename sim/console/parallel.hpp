#pragma once

#include <csignal>
#include <cstddef>
#include <functional>

// Many independent runs on the available cores. One thread executes a run from begin to end, and
// runs share only constants, so results do not depend on the number of threads. Ctrl-C stops them
// so that finished runs are kept.
namespace shardsim {

/// The work for each index of [0, count).
struct ParallelWork {
  /// Does one index. It is called from several threads at once, with ascending indices.
  std::function<void(std::size_t index)> body;
  /// Called when an index is done, by one thread at a time, in the order of their ends; may be
  /// null.
  std::function<void(std::size_t index)> finished;
  /// Called before each start; true: no more are started. Null: never.
  std::function<bool()> stop;
  /// Threads that may work now, from 1 to the jobs. Called before each start, so that cores that
  /// others leave are taken without a wait. Null: all jobs.
  std::function<int()> at_a_time = {};
};

/// Returns when all started work has ended. The caller's thread works, too; alone with one job.
/// After an exception nothing more is started, and that of the lowest index is thrown. REQUIRES:
/// jobs >= 1.
void run_parallel(std::size_t count, int jobs, const ParallelWork& work);

/// The number of cores that this process may use (its affinity, not the machine's size).
[[nodiscard]] int default_jobs();

/// While it lives, the first SIGINT or SIGTERM only requests a stop; a second one has its old
/// effect. Only one may live at a time.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  /// Whether a stop was requested. May be called from any thread.
  [[nodiscard]] bool is_asked() const;

 private:
  struct sigaction interrupt_ {};
  struct sigaction terminate_ {};
};

}  // namespace shardsim
