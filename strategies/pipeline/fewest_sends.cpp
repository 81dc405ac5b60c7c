#include "strategies/pipeline/fewest_sends.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "strategies/pipeline/lower.hpp"
#include "strategies/pipeline/timeline.hpp"
#include "strategies/pipeline/validate.hpp"

namespace shardsim {

namespace {

// None in a deadlock.
std::optional<std::int64_t> makespan_with(PipelineSchedule& lowered, int sends) {
  lowered.sends_in_flight = sends;
  if (!validate(lowered).empty()) return std::nullopt;
  return timeline(lowered, {{{}}, 0}).makespan;
}

}  // namespace

int fewest_sends(PipelineSchedule schedule) {
  const int most = std::max(kTwoSends, schedule.shape.num_chunks * schedule.shape.num_microbatches);
  schedule.sends_in_flight = most;
  if (!validate(schedule).empty()) return most;
  PipelineSchedule lowered = schedule.is_lowered() ? std::move(schedule) : lower(schedule);
  const std::optional<std::int64_t> best = makespan_with(lowered, most);
  // More sends never cost time.
  int enough = most;
  for (int too_few = kTwoSends - 1; enough - too_few > 1;) {
    const int middle = too_few == kTwoSends - 1 ? kTwoSends : too_few + (enough - too_few) / 2;
    (makespan_with(lowered, middle) == best ? enough : too_few) = middle;
  }
  return enough;
}

}  // namespace shardsim
