#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "strategies/pipeline/lower.hpp"
#include "strategies/pipeline/schedule_text.hpp"
#include "strategies/pipeline/timeline.hpp"
#include "strategies/pipeline/validate.hpp"

#include "tests/property/check_property.hpp"
#include "tests/property/random_schedule.hpp"
#include "tests/strategies/pipeline_naive.hpp"

// Pipeline schedules in random shapes, with random times and random mistakes.
namespace shardsim::test {

namespace {

// --- Mistakes ----------------------------------------------------------------------------------

using Row = std::vector<Action>;

void move_cell(Row& row, int from, int to) {
  const Action action = row[static_cast<std::size_t>(from)];
  row.erase(row.begin() + from);
  row.insert(row.begin() + std::min(to, static_cast<int>(row.size())), action);
}

void make_mistake(PipelineSchedule& schedule) {
  Row& row = schedule.actions[static_cast<std::size_t>(draw(0, schedule.shape.num_ranks - 1))];
  if (row.empty()) return;
  const int last = static_cast<int>(row.size()) - 1;
  const int cell = draw(0, last);
  Action& action = row[static_cast<std::size_t>(cell)];
  const int mistake = draw(0, 8);
  RC_LOG() << "mistake " << mistake << " in cell " << cell << "\n";
  switch (mistake) {
    case 0:
      return std::swap(action, row[static_cast<std::size_t>(draw(0, last))]);
    case 1:
      return std::swap(action, row[static_cast<std::size_t>(std::min(cell + 1, last))]);
    case 2:
      row.erase(row.begin() + cell);
      return;
    case 3: {
      const Action copy = action;
      row.insert(row.begin() + draw(0, last + 1), copy);
      return;
    }
    case 4:
      return move_cell(row, cell, draw(0, last));
    case 5:
      action.microbatch = draw(0, schedule.shape.num_microbatches);
      return;
    case 6:
      action.kind = static_cast<ActionKind>(draw(0, kNumActionKinds - 1));
      return;
    case 7:
      action.overlaps_next = !action.overlaps_next;
      return;
    default:
      // To another rank, where it may stand for another stage.
      Row& other =
          schedule.actions[static_cast<std::size_t>(draw(0, schedule.shape.num_ranks - 1))];
      const Action moved = action;
      row.erase(row.begin() + cell);
      other.push_back(moved);
  }
}

bool same_actions(const PipelineSchedule& a, const PipelineSchedule& b) {
  const auto sorted = [](Row row) {
    for (Action& action : row) action.overlaps_next = false;
    std::sort(row.begin(), row.end(), [](const Action& left, const Action& right) {
      return std::tie(left.kind, left.chunk, left.microbatch) <
             std::tie(right.kind, right.chunk, right.microbatch);
    });
    return row;
  };
  for (std::size_t rank = 0; rank < a.actions.size(); ++rank) {
    if (sorted(a.actions[rank]) != sorted(b.actions[rank])) return false;
  }
  return true;
}

// A mark stands before a backward of another microbatch, or the schedule has no meaning.
bool has_whole_blocks(const PipelineSchedule& schedule) {
  for (const Row& row : schedule.actions) {
    for (std::size_t cell = 0; cell < row.size(); ++cell) {
      if (!row[cell].overlaps_next) continue;
      if (row[cell].kind != ActionKind::forward || cell + 1 == row.size()) return false;
      const Action& next = row[cell + 1];
      if (next.kind != ActionKind::backward || next.overlaps_next) return false;
      if (next.microbatch == row[cell].microbatch) return false;
    }
  }
  return true;
}

// The naive run cannot see missing or superfluous actions, which check_cells looks at.
bool is_fine(const PipelineSchedule& mutated, const PipelineSchedule& original) {
  return same_actions(mutated, original) && has_whole_blocks(mutated) &&
         naive_runs(original.is_lowered() ? mutated : lower(mutated));
}

}  // namespace

TEST_CASE("P36: mistakes in a schedule are found, unless they do no harm") {
  int found = 0;
  int harmless = 0;
  check_property(4000, [&] {
    PipelineSchedule original = draw_schedule();
    const bool is_lowered = draw(0, 1) == 1;
    // With one send in flight more orders deadlock.
    original.sends_in_flight = std::max(original.sends_in_flight - draw(0, 1), 1);
    if (is_lowered) original = lower(original);
    PipelineSchedule mutated = original;
    for (int mistakes = draw(1, 2); mistakes > 0; --mistakes) make_mistake(mutated);
    RC_LOG() << to_text(original) << to_text(mutated);
    const auto problems = validate(mutated);
    RC_ASSERT(problems.empty() == is_fine(mutated, original));
    for (const ScheduleProblem& problem : problems) {
      RC_ASSERT(problem.rank >= 0 && problem.rank < mutated.shape.num_ranks);
      const auto cells = mutated.actions[static_cast<std::size_t>(problem.rank)].size();
      RC_ASSERT(problem.cell >= 0 && static_cast<std::size_t>(problem.cell) <= cells);
      RC_ASSERT(!problem.what.empty());
      RC_ASSERT(explain(mutated, problem).find(problem.what) != std::string::npos);
    }
    if (mutated != original) (problems.empty() ? harmless : found) += 1;
    // A harmless schedule runs, and takes no less than its longest row.
    if (!problems.empty()) return;
    const Timeline times = timeline(mutated, {{{2, 3, 1}}, 1});
    for (const RankTimeline& rank : times.ranks) RC_ASSERT(rank.idle >= 0);
  });
  INFO(found << " found, " << harmless << " harmless");
  CHECK(found > 2000);
  CHECK(harmless > 200);
}

TEST_CASE("any text is read as a schedule, which is valid or explained, or refused") {
  int read = 0;
  check_property(2000, [&] {
    const PipelineSchedule schedule = draw_schedule();
    std::string text = to_text(draw(0, 1) == 1 ? lower(schedule) : schedule);
    for (int changes = draw(1, 3); changes > 0; --changes) {
      const auto place = static_cast<std::size_t>(draw(0, static_cast<int>(text.size()) - 1));
      text[place] = *rc::gen::elementOf(std::string("0123456789FBIWSENDRCV_ ,:\n-x"));
    }
    RC_LOG() << text;
    try {
      const PipelineSchedule found = parse_schedule_text(text);
      RC_ASSERT(parse_schedule_text(to_text(found)) == found);
      const auto problems = validate(found);
      for (const ScheduleProblem& problem : problems) RC_ASSERT(!explain(found, problem).empty());
      ++read;
    } catch (const UsageError& error) {
      RC_ASSERT(error.code() == "E0756");
    }
  });
  CHECK(read > 100);
}

TEST_CASE("P37: idle time is that of the formulas for any F, I and W") {
  check_property(500, [] {
    const PipelineSchedule schedule = draw_schedule();
    const int v = schedule.shape.num_chunks;
    const StageCosts chunk{draw(0, 1000), draw(0, 1000), draw(0, 1000)};
    RC_LOG() << to_text(schedule) << chunk.forward << " " << chunk.backward_input << " "
             << chunk.backward_weight << "\n";
    const Timeline times = timeline(schedule, {{chunk}, 0});
    const Timeline lowered = timeline(lower(schedule), {{chunk}, 0});
    const auto idle = expected_idle(schedule, v * chunk.forward, v * chunk.backward_input,
                                    v * chunk.backward_weight);
    const auto in_span = expected_idle_in_span(schedule, v * chunk.forward,
                                               v * chunk.backward_input, v * chunk.backward_weight);
    std::int64_t worst_in_span = 0;
    for (const RankTimeline& rank : times.ranks) {
      if (idle) RC_ASSERT(rank.idle == *idle);
      worst_in_span = std::max(worst_in_span, rank.idle_in_span);
      RC_ASSERT(rank.idle_in_span <= rank.idle);
    }
    if (in_span) RC_ASSERT(worst_in_span == *in_span);
    // Without message times the protocol costs nothing.
    RC_ASSERT(lowered.makespan == times.makespan);
  });
}

TEST_CASE("P42: with uneven stages and slow messages, times are those of the naive protocol") {
  check_property(500, [] {
    PipelineSchedule schedule = draw_schedule();
    const ScheduleCosts costs = draw_costs(schedule);
    RC_LOG() << to_text(schedule);
    const PipelineSchedule lowered = lower(schedule);
    const Timeline times = timeline(lowered, costs);
    const auto cost = [&](ActionKind kind, int stage) { return cost_of(costs, kind, stage); };
    RC_ASSERT(times.spans == naive_times(lowered, cost, costs.message));
    // No protocol beats the dependencies.
    const Timeline free = timeline(schedule, costs);
    RC_ASSERT(free.makespan <= times.makespan);
    // Nor do these beat the way of one microbatch there and back.
    std::int64_t way = 0;
    for (int stage = 0; stage < schedule.num_stages(); ++stage) {
      way += cost(ActionKind::forward, stage) + cost(ActionKind::backward_input, stage);
    }
    RC_ASSERT(free.makespan >= way);
    for (const RankTimeline& rank : free.ranks) RC_ASSERT(free.makespan >= rank.busy);
  });
}

TEST_CASE("P42: without a protocol, an action starts as soon as its rank and its input allow") {
  check_property(500, [] {
    const PipelineSchedule schedule = draw_schedule();
    const ScheduleCosts costs = draw_costs(schedule);
    RC_LOG() << to_text(schedule);
    const Timeline times = timeline(schedule, costs);
    std::map<std::tuple<bool, int, int>, std::int64_t> made;  // Forward, stage, microbatch.
    const auto visit = [&](auto&& each) {
      for (int rank = 0; rank < schedule.shape.num_ranks; ++rank) {
        const auto row = static_cast<std::size_t>(rank);
        for (std::size_t cell = 0; cell < schedule.actions[row].size(); ++cell) {
          const Action& action = schedule.actions[row][cell];
          each(rank, cell, action, schedule.stage_of(rank, action.chunk));
        }
      }
    };
    visit([&](int rank, std::size_t cell, const Action& action, int stage) {
      if (action.kind == ActionKind::backward_weight) return;
      // The output of a block leaves at its end.
      made[{action.kind == ActionKind::forward, stage, action.microbatch}] =
          times.spans[static_cast<std::size_t>(rank)][cell + (action.overlaps_next ? 1 : 0)].end;
    });
    // When the input of an action is on its rank.
    const auto arrival = [&](int rank, const Action& action, int stage) {
      const bool forward = action.kind == ActionKind::forward;
      const int source = forward ? stage - 1 : stage + 1;
      const bool has_source = source >= 0 && source < schedule.num_stages();
      if (!has_source || action.kind == ActionKind::backward_weight) return std::int64_t{0};
      const bool crosses = schedule.rank_of(source) != rank;
      // The other half of a block may need what this rank made just before.
      return made.at({forward, source, action.microbatch}) + (crosses ? costs.message : 0);
    };
    visit([&](int rank, std::size_t cell, const Action& action, int stage) {
      const auto& spans = times.spans[static_cast<std::size_t>(rank)];
      const std::vector<Action>& row = schedule.actions[static_cast<std::size_t>(rank)];
      std::int64_t start = cell == 0 ? 0 : spans[cell - 1].end;
      start = std::max(start, arrival(rank, action, stage));
      if (action.overlaps_next) {
        const Action& other = row[cell + 1];
        start = std::max(start, arrival(rank, other, schedule.stage_of(rank, other.chunk)));
      }
      RC_ASSERT(spans[cell].start == start);
      RC_ASSERT(spans[cell].end == start + cost_of(costs, action.kind, stage));
    });
  });
}

}  // namespace shardsim::test
