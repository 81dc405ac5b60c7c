#pragma once

#include <cstddef>
#include <functional>

// Many independent runs on the cores there are. A run is one thread's from begin to end, and runs
// share nothing but constants, so results do not depend on how many threads there are.
namespace shardsim {

/// What is to be done with each index of [0, count).
struct ParallelWork {
  /// Does one. Called from several threads at once, with ascending indices.
  std::function<void(std::size_t index)> body;
  /// One is done. Called by one thread at a time, in whatever order they end; null: nobody asks.
  std::function<void(std::size_t index)> finished;
  /// Asked before each start; true: no more are started. Null: never.
  std::function<bool()> stop;
};

/// Returns when all that was started has ended. With one job everything runs on the caller's
/// thread. After an exception nothing more is started, and that of the lowest index is thrown.
/// REQUIRES: jobs >= 1.
void run_parallel(std::size_t count, int jobs, const ParallelWork& work);

/// As many as this process may use cores (its affinity, not the machine's size).
[[nodiscard]] int default_jobs();

}  // namespace shardsim
