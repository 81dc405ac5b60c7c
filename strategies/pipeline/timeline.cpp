#include "strategies/pipeline/timeline.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "sim/kernel/error.hpp"

#include "strategies/pipeline/lower.hpp"
#include "strategies/pipeline/schedule_text.hpp"
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
  const auto stages = index_of(schedule.num_stages());
  if (costs.stages.size() != 1 && costs.stages.size() != stages) {
    throw UsageError("E0757", concat(costs.stages.size(), " stage costs for ", stages, " stages"),
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

// Raises `makespan` to the end of the rank's last compute action.
RankTimeline measure(const std::vector<Action>& cells, const std::vector<ActionSpan>& spans,
                     std::int64_t& makespan) {
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
  makespan = std::max(makespan, last);
  return rank;
}

// None in a deadlock.
std::optional<std::int64_t> makespan_with(PipelineSchedule& lowered, int sends) {
  lowered.sends_in_flight = sends;
  if (!validate(lowered).empty()) return std::nullopt;
  return timeline(lowered, {{{}}, 0}).makespan;
}

constexpr std::int64_t kMaxColumns = 10'000;

using PictureRow = std::vector<std::string>;

PictureRow draw_rank(const PipelineSchedule& schedule, const Timeline& times, int rank) {
  const auto row = index_of(rank);
  PictureRow columns(index_of(times.makespan), ".");
  for (std::size_t cell = 0; cell < schedule.actions[row].size(); ++cell) {
    const Action& action = schedule.actions[row][cell];
    const ActionSpan& span = times.spans[row][cell];
    if (!is_compute(action.kind)) continue;
    for (std::int64_t time = span.start; time < span.end; ++time) {
      columns[index_of(time)] = time == span.start ? schedule.cell_text(rank, action) : "---";
    }
  }
  return columns;
}

}  // namespace

std::int64_t StageCosts::of(ActionKind kind) const {
  switch (kind) {
    case ActionKind::forward:
      return forward;
    case ActionKind::backward:
      return backward_input + backward_weight;
    case ActionKind::backward_input:
      return backward_input;
    default:
      return backward_weight;
  }
}

Timeline timeline(const PipelineSchedule& schedule, const ScheduleCosts& costs) {
  require_valid(schedule);
  require_costs(schedule, costs);
  const bool all_equal = costs.stages.size() == 1;
  const auto compute = [&](int rank, const Action& action, std::int64_t) {
    const int stage = schedule.stage_of(rank, action.chunk);
    return costs.stages[all_equal ? 0 : index_of(stage)].of(action.kind);
  };
  Timeline result;
  result.spans = play_protocol(schedule, {compute, costs.message});
  for (int rank = 0; rank < schedule.shape.num_ranks; ++rank) {
    const auto row = index_of(rank);
    result.ranks.push_back(measure(schedule.actions[row], result.spans[row], result.makespan));
    result.ranks.back().peak_in_flight = peak_in_flight(schedule, rank);
  }
  for (RankTimeline& rank : result.ranks) rank.idle = result.makespan - rank.busy;
  return result;
}

void play_actions(const PipelineSchedule& schedule, const ProtocolCosts& costs) {
  (void)play_protocol(schedule, costs);
}

int peak_in_flight(const PipelineSchedule& schedule, int rank) {
  int held = 0;
  int peak = 0;
  for (const Action& action : schedule.actions[index_of(rank)]) {
    if (action.kind == ActionKind::forward) peak = std::max(peak, ++held);
    if (releases_activation(action.kind)) --held;
  }
  return peak;
}

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

std::string to_picture(const PipelineSchedule& schedule, const Timeline& times) {
  if (times.makespan > kMaxColumns) {
    throw LimitError(
        "E0759",
        concat("a picture of ", times.makespan, " units of time is wider than ", kMaxColumns),
        "give the costs of the schedule in a larger unit");
  }
  std::vector<PictureRow> rows = {{}};
  std::vector<std::string> labels = {"time"};
  for (std::int64_t time = 0; time < times.makespan; ++time) {
    rows.front().push_back(std::to_string(time));
  }
  for (int rank = 0; rank < schedule.shape.num_ranks; ++rank) {
    rows.push_back(draw_rank(schedule, times, rank));
    labels.push_back("rank " + std::to_string(rank));
  }
  std::size_t width = 0;
  for (const PictureRow& row : rows) {
    for (const std::string& column : row) width = std::max(width, column.size());
  }
  std::string text;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    std::string line = padded(labels[row], labels.back().size());
    for (const std::string& column : rows[row]) line += " " + padded(column, width);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace shardsim
