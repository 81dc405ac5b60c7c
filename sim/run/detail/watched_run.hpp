#pragma once

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "backends/fiber/fiber_world.hpp"

#include "strategies/training/parallel_plan.hpp"

#include "sim/run/detail/rank_recorder.hpp"
#include "sim/run/run.hpp"

namespace shardsim {

/// The same run once more, with recorders on some of its ranks. These ranks are known only after
/// the run, and nothing should be kept for the others (docs/decisions/0042). It always runs without
/// data; decisions that depend on values are replayed.
class WatchedRun {
 public:
  /// `options`: those of the run. `decisions`: its own, or those it replayed; null: none. `ranks`:
  /// those to record, which run themselves.
  WatchedRun(const ParallelPlan& plan, const RunHooks& hooks, FiberOptions options,
             const DecisionLog* decisions, const std::set<int>& ranks);

  /// REQUIRES: one of the ranks.
  [[nodiscard]] RankRecorder& of(int rank) const;
  [[nodiscard]] std::uint64_t trace_hash() const { return world_->engine().trace_hash(); }

 private:
  void run(const ParallelPlan& plan, const RunHooks& hooks);

  std::optional<DecisionReplay> replay_;
  std::optional<FiberWorld> world_;
  std::vector<std::unique_ptr<RankRecorder>> recorders_;  // They observe the world.
};

}  // namespace shardsim
