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

void lower_rank(const PipelineSchedule& schedule, int rank, std::vector<Action>& actions,
                std::vector<int>& origins) {
  const std::vector<Action>& cells = schedule.actions[static_cast<std::size_t>(rank)];
  const auto add = [&](ActionKind kind, std::size_t cell) {
    actions.push_back({kind, cells[cell].chunk, cells[cell].microbatch});
    origins.push_back(static_cast<int>(cell));
  };
  const auto add_receive = [&](std::size_t cell) {
    if (cell < cells.size() && message_into(schedule, rank, cells[cell])) {
      add(receive_for(cells[cell].kind), cell);
    }
  };
  actions.reserve(3 * cells.size());
  origins.reserve(3 * cells.size());
  add_receive(0);
  add_receive(1);
  for (std::size_t cell = 0; cell < cells.size(); ++cell) {
    add(cells[cell].kind, cell);
    // Posting a receive never waits and posting a send may, so the receive comes first.
    add_receive(cell + 2);
    if (message_out_of(schedule, rank, cells[cell])) add(send_for(cells[cell].kind), cell);
  }
}

}  // namespace

LoweredSchedule lower_with_origins(const PipelineSchedule& schedule) {
  LoweredSchedule lowered{
      {schedule.name, schedule.shape, schedule.placement, schedule.sends_in_flight, {}}, {}};
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
