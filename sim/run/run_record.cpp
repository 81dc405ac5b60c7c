#include <utility>

#include "sim/kernel/last_rank.hpp"

#include "sim/run/metrics.hpp"

// The record of a run, which marks of its ranks fill in.
namespace shardsim {

RunRecord::RunRecord(const World& world, std::int64_t steps, std::vector<Oracle*> oracles,
                     bool knows_routing)
    : world_(world),
      last_step_(steps - 1),
      oracles_(std::move(oracles)),
      knows_routing_(knows_routing),
      begin_(world.running().size()),
      end_(begin_.size()),
      pipeline_(begin_.size()) {}

int RunRecord::last_rank() const {
  return shardsim::last_rank(world_.running(),
                             [this](int rank) { return last_step_end(rank).clock; });
}

void RunRecord::note(int rank, const ProgramMark& mark) {
  const std::size_t index = place_of(rank);
  if (mark.kind == ProgramMark::Kind::decided) {
    if (rank != 0) return;
    if (mark.skipped) ++skipped_steps_;
    last_step_skipped_ = mark.skipped;
    loss_scale_ = mark.next_scale;
    return;
  }
  if (mark.step != last_step_) return;
  const RankMoment now = moment(rank);
  switch (mark.kind) {
    case ProgramMark::Kind::step_begins:
      begin_[index] = now;
      break;
    case ProgramMark::Kind::compute_begins:
      pipeline_[index] = {now.clock, now.clock, now.split.compute};
      break;
    case ProgramMark::Kind::compute_ends:
      pipeline_[index].end = now.clock;
      pipeline_[index].busy = now.split.compute - pipeline_[index].busy;
      break;
    case ProgramMark::Kind::step_ends:
      end_[index] = now;
      break;
    case ProgramMark::Kind::decided:
      break;
  }
}

void RunRecord::Observer::note(ProgramMark::Kind kind, std::int64_t step) {
  record_.note(holder_.rank, {.kind = kind, .step = step});
}

void RunRecord::Observer::step_begins(std::int64_t step) {
  note(ProgramMark::Kind::step_begins, step);
}

void RunRecord::Observer::compute_begins(std::int64_t step) {
  note(ProgramMark::Kind::compute_begins, step);
}

void RunRecord::Observer::compute_ends(std::int64_t step) {
  note(ProgramMark::Kind::compute_ends, step);
}

void RunRecord::Observer::gradients_ready(std::int64_t step, const GradientSync& sync) {
  if (oracle() != nullptr) oracle()->check_gradients(step, holder_, sync);
}

void RunRecord::Observer::step_decided(std::int64_t step, bool skipped, double next_scale) {
  record_.note(holder_.rank, {ProgramMark::Kind::decided, step, skipped, next_scale});
  if (oracle() != nullptr) {
    oracle()->check_decision(step, holder_.rank, skipped, next_scale);
  }
}

void RunRecord::Observer::norm_ready(std::int64_t step, double norm) {
  if (oracle() != nullptr) oracle()->check_norm(step, holder_.rank, norm);
}

void RunRecord::Observer::step_ends(std::int64_t step, const GradientSync& sync,
                                    std::optional<double> loss) {
  note(ProgramMark::Kind::step_ends, step);
  if (oracle() != nullptr) oracle()->check_state(step, holder_, sync, loss);
}

}  // namespace shardsim
