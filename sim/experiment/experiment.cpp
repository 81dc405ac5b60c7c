#include "sim/experiment/experiment.hpp"

#include <cstddef>
#include <utility>

#include "sim/experiment/assumptions.hpp"
#include "sim/experiment/derive.hpp"

namespace shardsim {

Experiment::Experiment(Scenario scenario, const ScheduleEdit& edit)
    : scenario_(std::move(scenario)),
      cluster_(cluster_of(scenario_.system)),
      options_(parallel_options_of(scenario_, software())),
      optimizer_(optimizer_of(scenario_.training)) {
  ++derivations().experiments;
  world_ = fiber_options_of(scenario_, cluster_, options_.mesh);
  if (!edit) return;
  if (!options_.own_schedule) {
    options_.own_schedule = make_schedule(options_.schedule, shape_of(options_));
  }
  edit(*options_.own_schedule);
}

std::int64_t Experiment::owned_bytes() const {
  const SyncPlan& sync = options_.sync;
  const std::size_t copies = sync.master_dtype == sync.weight_dtype ? 0 : 1;
  return size_of(sync.master_dtype) *
         static_cast<std::int64_t>(optimizer_->state_names().size() + copies);
}

const ParallelPlan& Experiment::plan() const {
  if (!plan_) {
    ++derivations().plans;
    plan_.emplace(options_, *optimizer_);
  }
  return *plan_;
}

const AlikeRanks& Experiment::alike() const {
  if (!alike_) alike_ = alike_ranks_of(plan());
  return *alike_;
}

const Folding& Experiment::folding() const {
  if (!folding_) folding_ = folding_of(*this);
  return *folding_;
}

const std::vector<Assumption>& Experiment::assumptions() const {
  if (!assumptions_) assumptions_ = assumptions_of(*this);
  return *assumptions_;
}

Experiment compile(Scenario scenario, const ScheduleEdit& edit) {
  return Experiment(std::move(scenario), edit);
}

}  // namespace shardsim
