#include "tests/mutants/warm_up.hpp"

#include <algorithm>
#include <vector>

#include "strategies/pipeline/lower.hpp"
#include "strategies/pipeline/validate.hpp"

#include "tests/property/measured_pipeline.hpp"
#include "tests/strategies/pipeline_fixture.hpp"

namespace shardsim::test {

PipelineSchedule with_warm_up(const PipelineSchedule& schedule, int rank, int change) {
  PipelineSchedule mutated = schedule;
  std::vector<Action>& row = mutated.actions[static_cast<std::size_t>(rank)];
  std::vector<Action> forwards;
  std::vector<std::vector<Action>> backwards;  // Each with the W that follow it.
  int before_first_backward = 0;
  for (const Action& action : row) {
    if (action.kind == ActionKind::forward) {
      forwards.push_back(action);
      if (backwards.empty()) ++before_first_backward;
    } else if (makes_input_gradient(action.kind)) {
      backwards.push_back({action});
    } else {
      backwards.back().push_back(action);
    }
  }
  row.clear();
  const auto lead = static_cast<std::size_t>(std::max(0, before_first_backward + change));
  const std::size_t turns = std::max(forwards.size(), lead + backwards.size());
  for (std::size_t turn = 0; turn < turns; ++turn) {
    if (turn >= lead && turn - lead < backwards.size()) {
      const std::vector<Action>& backward = backwards[turn - lead];
      row.insert(row.end(), backward.begin(), backward.end());
    }
    if (turn < forwards.size()) row.push_back(forwards[turn]);
  }
  return mutated;
}

Detector finder_of(const PipelineSchedule& mutated, const PipelineSchedule& original) {
  if (!validate(mutated).empty()) return Detector::validator;
  const Timeline times = run_pipeline(lower(mutated), {{{4, 4, 4}}, 0}).timeline;
  for (int rank = 0; rank < original.shape.num_ranks; ++rank) {
    const int in_flight = times.ranks[static_cast<std::size_t>(rank)].peak_in_flight;
    if (in_flight != *expected_in_flight(original, rank)) return Detector::in_flight;
  }
  return Detector::nobody;
}

}  // namespace shardsim::test
