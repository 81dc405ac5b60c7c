#pragma once

#include <cstdint>

#include <rapidcheck.h>

#include "strategies/pipeline/timeline.hpp"

#include "tests/strategies/pipeline_fixture.hpp"

// Random pipeline schedules and random times. To be called within a property.
namespace shardsim::test {

inline int draw(int first, int last) { return *rc::gen::inRange(first, last + 1); }

/// A schedule of any name and shape, with `min_ranks` ranks at least.
inline PipelineSchedule draw_schedule(int min_ranks = 1) {
  const auto names = schedule_names();
  // At full size, or those at the end of the list are hardly ever drawn.
  const auto number =
      *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<std::size_t>(0, names.size()));
  const std::string_view name = names[number];
  PipelineShape shape{draw(min_ranks, 6), draw(1, 4), draw(1, 12)};
  const ScheduleRow& row = schedule_row(name);
  shape.num_chunks = std::clamp(shape.num_chunks, row.min_chunks, row.max_chunks);
  shape.num_microbatches += row.least_microbatches(shape) - 1;
  if (row.whole_rounds) {
    shape.num_microbatches = shape.num_ranks * draw(1, 3);
  }
  return make_schedule(name, shape);
}

/// Each stage and kind has a time of its own.
inline ScheduleCosts draw_costs(const PipelineSchedule& schedule) {
  ScheduleCosts costs;
  for (int stage = 0; stage < schedule.num_stages(); ++stage) {
    const int forward = draw(0, 20);
    const int backward_input = draw(0, 20);
    const int backward_weight = draw(0, 20);
    costs.stages.push_back({forward, backward_input, backward_weight});
  }
  costs.message = *rc::gen::element(0, 1, 7, 40);
  return costs;
}

/// The time that an action of a stage takes.
inline std::int64_t cost_of(const ScheduleCosts& costs, ActionKind kind, int stage) {
  const StageCosts& cost = costs.stages[static_cast<std::size_t>(stage)];
  switch (kind) {
    case ActionKind::forward:
      return cost.forward;
    case ActionKind::backward:
      return cost.backward_input + cost.backward_weight;
    case ActionKind::backward_input:
      return cost.backward_input;
    default:
      return cost.backward_weight;
  }
}

}  // namespace shardsim::test
