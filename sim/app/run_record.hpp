#pragma once

#include <vector>

#include "sim/kernel/engine.hpp"

#include "strategies/training/train.hpp"

#include "sim/app/oracle.hpp"

namespace shardsim {

/// Where a rank stood at a moment.
struct RankMoment {
  Time clock;
  TimeSplit split;
};

/// What is kept of a run besides counters: where every rank stood when its last step began and
/// ended, and what the oracle says. One per run; each rank reports to it through an observer.
class RunRecord {
 public:
  /// `oracle` may be null.
  RunRecord(const Engine& engine, std::int64_t steps, Oracle* oracle);

  [[nodiscard]] const RankMoment& last_step_begin(int rank) const {
    return begin_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] const RankMoment& last_step_end(int rank) const {
    return end_[static_cast<std::size_t>(rank)];
  }
  /// The rank whose last step ends last; among equals the lowest.
  [[nodiscard]] int last_rank() const;

  /// The observer of one rank.
  class Observer final : public TrainingObserver {
   public:
    Observer(RunRecord& record, const Oracle::Holder& holder) : record_(record), holder_(holder) {}
    void step_begins(std::int64_t step) override;
    void gradients_ready(std::int64_t step, const GradientSync& sync) override;
    void step_ends(std::int64_t step, const GradientSync& sync,
                   std::optional<double> loss) override;

   private:
    RunRecord& record_;
    Oracle::Holder holder_;
  };

 private:
  [[nodiscard]] RankMoment moment(int rank) const {
    return {engine_.rank(rank).now(), engine_.rank(rank).split()};
  }

  const Engine& engine_;
  std::int64_t last_step_;
  Oracle* oracle_;
  std::vector<RankMoment> begin_;
  std::vector<RankMoment> end_;
};

}  // namespace shardsim
