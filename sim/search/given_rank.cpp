#include "sim/search/given_rank.hpp"

namespace shardsim {

void GivenRank::simulate(const std::function<bool()>& is_over) {
  if (!base_.given) return;
  GivenOutcome& given = given_.emplace();
  given.candidate = base_.given->candidate;
  given.why_not_searched = why_not_searched(space_, *base_.given, place_);
  const std::size_t index =
      given.why_not_searched.empty() ? space_.index(place_) : space_.num_candidates();
  try {
    const Simulation run =
        simulate_layout(base_of_given(base_, *base_.given), index, given.candidate, is_over);
    given.point = run.point;
    given.failure = run.failure;
  } catch (const SimulationAbandoned&) {
    given.failure = "the search was stopped before its simulation ended";
  }
}

const SimulatedPoint* GivenRank::found() const {
  if (!given_ || !given_->point || !given_->why_not_searched.empty()) return nullptr;
  return given_->point->fits ? &*given_->point : nullptr;
}

void GivenRank::note_decided(const Bound& bound, std::size_t num_candidates) {
  if (!given_ || !given_->point) return;
  if (found_.is_behind(bound, *given_->point)) num_behind_ += num_candidates;
}

std::optional<GivenOutcome> GivenRank::ranked(const std::vector<SimulatedPoint>& simulated,
                                              std::size_t num_others) const {
  if (!given_ || !given_->point) return given_;
  GivenOutcome given = *given_;
  const SimulatedPoint& point = *given.point;
  for (const SimulatedPoint& other : simulated) {
    if (other.fits && ranks_before(other, point, found_.objective())) ++given.num_ahead;
  }
  given.num_undecided = num_others - num_behind_;
  return given;
}

}  // namespace shardsim
