#include "strategies/pipeline/lower.hpp"

#include <utility>

#include "strategies/pipeline/message.hpp"

namespace shardsim {

namespace {

ActionKind receive_for(ActionKind consumer) {
  return consumer == ActionKind::forward ? ActionKind::recv_forward : ActionKind::recv_backward;
}

ActionKind send_for(ActionKind producer) {
  return producer == ActionKind::forward ? ActionKind::send_forward : ActionKind::send_backward;
}

// Cells that run without a pause: one, or the two of a block.
struct Run {
  std::size_t begin;
  std::size_t end;
};

std::vector<Run> runs_of(const std::vector<Action>& cells) {
  std::vector<Run> runs;
  runs.reserve(cells.size());
  for (std::size_t cell = 0; cell < cells.size();) {
    const std::size_t begin = cell;
    while (cells[cell].overlaps_next && cell + 1 < cells.size()) ++cell;
    runs.push_back({begin, ++cell});
  }
  return runs;
}

void lower_rank(const PipelineSchedule& schedule, int rank, std::vector<Action>& actions,
                std::vector<int>& origins) {
  const std::vector<Action>& cells = schedule.actions[static_cast<std::size_t>(rank)];
  const std::vector<Run> runs = runs_of(cells);
  const auto add = [&](const Action& action, std::size_t cell) {
    actions.push_back(action);
    origins.push_back(static_cast<int>(cell));
  };
  const auto with_kind = [&](ActionKind kind, std::size_t cell) {
    return make_action(kind, cells[cell].chunk, cells[cell].microbatch);
  };
  const auto add_receives = [&](std::size_t run) {
    if (run >= runs.size()) return;
    for (std::size_t cell = runs[run].begin; cell < runs[run].end; ++cell) {
      if (!message_into(schedule, rank, cells[cell])) continue;
      add(with_kind(receive_for(cells[cell].kind), cell), cell);
    }
  };
  actions.reserve(3 * cells.size());
  origins.reserve(3 * cells.size());
  add_receives(0);
  add_receives(1);
  for (std::size_t run = 0; run < runs.size(); ++run) {
    const auto [begin, end] = runs[run];
    for (std::size_t cell = begin; cell < end; ++cell) add(cells[cell], cell);
    // Posting a receive never waits and posting a send may, so the receive comes first.
    add_receives(run + 2);
    for (std::size_t cell = begin; cell < end; ++cell) {
      if (!message_out_of(schedule, rank, cells[cell])) continue;
      add(with_kind(send_for(cells[cell].kind), cell), cell);
    }
  }
}

}  // namespace

LoweredSchedule lower_with_origins(const PipelineSchedule& schedule) {
  LoweredSchedule lowered{
      {schedule.name, schedule.shape, schedule.placement, schedule.sends_in_flight, {}, nullptr},
      {}};
  const std::size_t ranks = schedule.actions.size();
  lowered.schedule.actions.resize(ranks);
  lowered.origins.resize(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    lower_rank(schedule, static_cast<int>(rank), lowered.schedule.actions[rank],
               lowered.origins[rank]);
  }
  return lowered;
}

PipelineSchedule lower(const PipelineSchedule& schedule) {
  return std::move(lower_with_origins(schedule).schedule);
}

}  // namespace shardsim
