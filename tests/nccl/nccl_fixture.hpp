#pragma once

#include <functional>

#include "backends/nccl/nccl_backend.hpp"

#include "tests/backends/fiber_fixture.hpp"
#include "tests/nccl/stand_in/stand_in.hpp"

// Ranks over the stand-in for NCCL, as fibers of one thread.
namespace shardsim {

struct NcclCase {
  /// Sets stand_in::script() up; called after it was reset.
  std::function<void()> prepare;
  /// The watch of the rank given; null: none.
  std::function<CallWatch*(int)> watch;
  /// Called with the backend of every rank as it ends.
  std::function<void(const NcclBackend&)> inspect;
  /// Let the other ranks go on when one has failed, until they fail too.
  bool all_fail = false;
};

/// Runs `body` on `ranks` ranks. Throws what the first rank to fail throws, or std::logic_error
/// with what the ranks did wrong by the stand-in's rules. A run in which nothing moves ends at a
/// deadline, in steps of the scheduler.
void run_nccl_ranks(int ranks, const FiberWorld::RankBody& body, const NcclCase& test = {});

}  // namespace shardsim
