#include "sim/run/run_record.hpp"

#include <utility>

namespace shardsim {

RunRecord::RunRecord(const FiberWorld& world, std::int64_t steps, std::vector<Oracle*> oracles)
    : world_(world),
      last_step_(steps - 1),
      oracles_(std::move(oracles)),
      begin_(static_cast<std::size_t>(world.engine().num_ranks())),
      end_(begin_.size()),
      pipeline_(begin_.size()) {}

int RunRecord::last_rank() const {
  int last = 0;
  for (int rank = 1; rank < world_.engine().num_ranks(); ++rank) {
    if (last_step_end(rank).clock > last_step_end(last).clock) last = rank;
  }
  return last;
}

void RunRecord::Observer::step_begins(std::int64_t step) {
  if (step == record_.last_step_) {
    record_.begin_[static_cast<std::size_t>(holder_.rank)] = record_.moment(holder_.rank);
  }
}

void RunRecord::Observer::compute_begins(std::int64_t step) {
  if (step != record_.last_step_) return;
  const RankMoment moment = record_.moment(holder_.rank);
  record_.pipeline_[static_cast<std::size_t>(holder_.rank)] = {moment.clock, moment.clock,
                                                               moment.split.compute};
}

void RunRecord::Observer::compute_ends(std::int64_t step) {
  if (step != record_.last_step_) return;
  const RankMoment moment = record_.moment(holder_.rank);
  PipelineSpan& span = record_.pipeline_[static_cast<std::size_t>(holder_.rank)];
  span.end = moment.clock;
  span.busy = moment.split.compute - span.busy;
}

void RunRecord::Observer::gradients_ready(std::int64_t step, const GradientSync& sync) {
  if (oracle() != nullptr) oracle()->check_gradients(step, holder_, sync);
}

void RunRecord::Observer::step_decided(std::int64_t step, bool skipped, double next_scale) {
  if (holder_.rank == 0) {
    if (skipped) ++record_.skipped_steps_;
    record_.last_step_skipped_ = skipped;
    record_.loss_scale_ = next_scale;
  }
  if (oracle() != nullptr) {
    oracle()->check_decision(step, holder_.rank, skipped, next_scale);
  }
}

void RunRecord::Observer::step_ends(std::int64_t step, const GradientSync& sync,
                                    std::optional<double> loss) {
  if (step == record_.last_step_) {
    record_.end_[static_cast<std::size_t>(holder_.rank)] = record_.moment(holder_.rank);
  }
  if (oracle() != nullptr) oracle()->check_state(step, holder_, sync, loss);
}

}  // namespace shardsim
