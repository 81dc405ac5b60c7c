#pragma once

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "backends/fiber/fiber_world.hpp"

#include "strategies/training/parallel_plan.hpp"

#include "sim/app/detail/rank_recorder.hpp"
#include "sim/app/run.hpp"

namespace shardsim {

/// The same run once more, with recorders on some of its ranks: who they are is known only when it
/// has ended, and nothing is to be kept of all others (docs/decisions/0042). Always without data;
/// what values decide is replayed.
class WatchedRun {
 public:
  /// `options`: those of the run. `decisions`: its own, or those it replayed; null: none. `ranks`:
  /// that run, and so stand for themselves.
  WatchedRun(const ParallelPlan& plan, const RunHooks& hooks, FiberOptions options,
             const DecisionLog* decisions, const std::set<int>& ranks);

  /// REQUIRES: one of the ranks.
  [[nodiscard]] RankRecorder& of(int rank) const;
  [[nodiscard]] std::uint64_t trace_hash() const { return world_->engine().trace_hash(); }

 private:
  void run(const ParallelPlan& plan, const RunHooks& hooks);

  std::optional<DecisionReplay> replay_;
  std::optional<FiberWorld> world_;
  std::vector<std::unique_ptr<RankRecorder>> recorders_;  // They look at the world.
};

}  // namespace shardsim
