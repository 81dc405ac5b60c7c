#include "strategies/pipeline/timeline.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "sim/kernel/error.hpp"

#include "strategies/pipeline/validate.hpp"

namespace shardsim {

namespace {

// A time so long that sums of it still fit: no step comes near.
constexpr std::int64_t kMostTime = std::numeric_limits<std::int64_t>::max() / 4;

[[noreturn]] void too_long() {
  throw LimitError("E0758", "the times of this schedule add up to more than 2^61",
                   "give its costs in a larger unit");
}

std::int64_t checked_sum(std::int64_t a, std::int64_t b) {
  if (a > kMostTime - b) too_long();
  return a + b;
}

std::int64_t checked_product(std::int64_t a, std::int64_t b) {
  if (b != 0 && a > kMostTime / b) too_long();
  return a * b;
}

void require_costs(const PipelineSchedule& schedule, const ScheduleCosts& costs) {
  const auto stages = static_cast<std::size_t>(schedule.num_stages());
  if (costs.stages.size() != 1 && costs.stages.size() != stages) {
    throw UsageError("E0757",
                     std::to_string(costs.stages.size()) + " stage costs for " +
                         std::to_string(stages) + " stages",
                     "give one for each stage, or a single one for all");
  }
  std::int64_t smallest = costs.message;
  // If everything ran one after the other, it could not take longer.
  std::int64_t sum = 0;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const StageCosts& cost = costs.stages[costs.stages.size() == 1 ? 0 : stage];
    for (const std::int64_t part :
         {cost.forward, cost.backward_input, cost.backward_weight, costs.message, costs.message}) {
      smallest = std::min(smallest, part);
      if (part > 0) sum = checked_sum(sum, part);
    }
  }
  if (smallest < 0) {
    throw UsageError("E0757", "a cost of a schedule is " + std::to_string(smallest),
                     "costs are times and may not be negative");
  }
  (void)checked_product(sum, schedule.shape.num_microbatches);
}

std::int64_t cost_of(ActionKind kind, const StageCosts& costs) {
  switch (kind) {
    case ActionKind::forward:
      return costs.forward;
    case ActionKind::backward:
      return costs.backward_input + costs.backward_weight;
    case ActionKind::backward_input:
      return costs.backward_input;
    default:
      return costs.backward_weight;
  }
}

RankTimeline measure(const std::vector<Action>& cells, const std::vector<ActionSpan>& spans) {
  RankTimeline rank;
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  std::int64_t last = 0;
  for (std::size_t cell = 0; cell < cells.size(); ++cell) {
    if (!is_compute(cells[cell].kind)) continue;
    rank.busy += spans[cell].end - spans[cell].start;
    first = std::min(first, spans[cell].start);
    last = std::max(last, spans[cell].end);
  }
  rank.idle_in_span = last - first - rank.busy;
  return rank;
}

}  // namespace

Timeline timeline(const PipelineSchedule& schedule, const ScheduleCosts& costs) {
  require_valid(schedule);
  require_costs(schedule, costs);
  const bool all_equal = costs.stages.size() == 1;
  const auto compute = [&](ActionKind kind, int stage) {
    return cost_of(kind, costs.stages[all_equal ? 0 : static_cast<std::size_t>(stage)]);
  };
  Timeline result;
  result.spans = play_protocol(schedule, {compute, costs.message});
  for (int rank = 0; rank < schedule.shape.num_ranks; ++rank) {
    const auto row = static_cast<std::size_t>(rank);
    result.ranks.push_back(measure(schedule.actions[row], result.spans[row]));
    result.ranks.back().peak_in_flight = peak_in_flight(schedule, rank);
    for (std::size_t cell = 0; cell < schedule.actions[row].size(); ++cell) {
      if (!is_compute(schedule.actions[row][cell].kind)) continue;
      result.makespan = std::max(result.makespan, result.spans[row][cell].end);
    }
  }
  for (RankTimeline& rank : result.ranks) rank.idle = result.makespan - rank.busy;
  return result;
}

int peak_in_flight(const PipelineSchedule& schedule, int rank) {
  int held = 0;
  int peak = 0;
  for (const Action& action : schedule.actions[static_cast<std::size_t>(rank)]) {
    if (action.kind == ActionKind::forward) peak = std::max(peak, ++held);
    if (releases_activation(action.kind)) --held;
  }
  return peak;
}

}  // namespace shardsim
