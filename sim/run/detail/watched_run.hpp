#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/kernel/rank_state.hpp"

#include "backends/fiber/fiber_operation.hpp"
#include "backends/fiber/fiber_world.hpp"

#include "strategies/training/parallel_plan.hpp"
#include "strategies/training/train.hpp"

#include "sim/run/detail/bounded_series.hpp"
#include "sim/run/run.hpp"

namespace shardsim {

/// The last step of one rank: its streams as bars, its memory, its communication by communicator
/// and its operations by name. It observes the rank and its training. It keeps a bounded number of
/// bars and points, however long the step is.
class RankRecorder final : public RankObserver, public TrainingObserver, private MemoryListener {
 public:
  /// Names of bars that are no operation of a communicator.
  static constexpr std::string_view kGradients = "gradients";
  static constexpr std::string_view kOptimizer = "optimizer";

  struct CommTime {
    Time exposed;  ///< The compute stream's wait inside operations,
    Time busy;     ///< and their duration.
  };
  struct OperationSum {
    double flops = 0;
    double bytes = 0;
    Time time;
    std::int64_t calls = 0;
    bool on_host_link = false;
  };

  /// Several communicators may have one name: between stages, one each way.
  using Stream = std::pair<std::string, std::uint64_t>;

  /// `steps`: the number of steps of the run.
  explicit RankRecorder(std::int64_t steps) : last_step_(steps - 1) {}
  RankRecorder(const RankRecorder&) = delete;
  RankRecorder& operator=(const RankRecorder&) = delete;
  ~RankRecorder() override;

  /// Sets the observed rank, which outlives it. Must be called before the run.
  void attach(RankState& rank);

  [[nodiscard]] int rank() const { return rank_->index(); }
  /// By name of the communicator.
  [[nodiscard]] const std::map<std::string, CommTime>& comm() const { return comm_; }
  [[nodiscard]] const std::map<std::string_view, OperationSum>& operations() const {
    return operations_;
  }
  /// The extra time of computation beside communication.
  [[nodiscard]] Time slowed() const { return slowed_; }
  [[nodiscard]] BarRow& compute() { return compute_; }
  /// By name and group of the communicator.
  [[nodiscard]] std::map<Stream, BarRow>& streams() { return streams_; }
  /// The memory during the step; and at its peak, if that was outside the step.
  [[nodiscard]] std::vector<TimedUse> take_memory();
  [[nodiscard]] bool has_thinned_memory() const { return memory_.has_thinned(); }

  void computed(const ComputeOp& op, Time begin, Time end) override;
  void posted(const FiberOperation& operation) override;
  void waits(const FiberOperation& operation) override;
  void waited(const FiberOperation& operation, int member) override;

  void step_begins(std::int64_t step) override;
  void action_begins(std::int64_t step, const Action& action) override;
  void compute_ends(std::int64_t step) override;
  void step_decided(std::int64_t step, bool skipped, double next_scale) override;
  void step_ends(std::int64_t step, const GradientSync& sync, std::optional<double> loss) override;

 private:
  // The rank's current work; bars get their names from it.
  struct Doing {
    std::string_view name = kGradients;
    std::int64_t chunk = 0;
    std::int64_t microbatch = -1;
  };
  void memory_changed(MemoryCategory category, std::int64_t bytes_now) override;
  [[nodiscard]] Doing take_posted(const FiberOperation& operation);

  RankState* rank_ = nullptr;
  std::int64_t last_step_;
  bool records_ = false;
  Doing doing_;
  TimeSplit before_;  // At the begin of the current wait.
  Time begin_of_wait_;
  std::vector<std::pair<const FiberOperation*, Doing>> posted_;  // And not waited for.
  Time slowed_;
  BarRow compute_;
  std::map<Stream, BarRow> streams_;
  std::map<std::string, CommTime> comm_;
  std::map<std::string_view, OperationSum> operations_;
  CurveThinner memory_;
  TimedUse most_outside_;  // Outside the step.
};

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
  [[nodiscard]] std::uint64_t trace_hash() const { return world_->trace_hash(); }

 private:
  void run(const ParallelPlan& plan, const RunHooks& hooks);

  std::optional<DecisionReplay> replay_;
  std::optional<FiberWorld> world_;
  std::vector<std::unique_ptr<RankRecorder>> recorders_;  // They observe the world.
};

}  // namespace shardsim
