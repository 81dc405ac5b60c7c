#include "strategies/pipeline/lower.hpp"

#include <utility>

namespace shardsim {

namespace {

// The rank of the stage `step` (one up or down) from that of a chunk. Without divisions, because a
// large schedule asks for it tens of millions of times.
int neighbour(const PipelineSchedule& schedule, int rank, int chunk, int step) {
  const int last = schedule.shape.num_ranks - 1;
  if (schedule.placement == Placement::v) {
    const int there = rank + (chunk % 2 != 0 ? -step : step);
    return there < 0 || there > last ? rank : there;  // At a turn the next stage is here, too.
  }
  const int there = rank + step;
  if (there < 0) return last;
  return there > last ? 0 : there;
}

// Between the stage of `action` and the one `step` from it, which sends or, if `out`, receives.
std::optional<Message> between(const PipelineSchedule& schedule, int rank, const Action& action,
                               Direction direction, bool out) {
  const int step = (direction == Direction::forward) == out ? 1 : -1;
  const int here = schedule.stage_of(rank, action.chunk);
  const int there = here + step;
  const int stages = schedule.num_stages();
  if (here < 0 || here >= stages || there < 0 || there >= stages) return std::nullopt;
  const int other = neighbour(schedule, rank, action.chunk, step);
  if (other == rank) return std::nullopt;
  if (out) return Message{direction, here, there, action.microbatch, rank, other};
  return Message{direction, there, here, action.microbatch, other, rank};
}

std::optional<Message> of_compute(const PipelineSchedule& schedule, int rank, const Action& action,
                                  bool out) {
  if (action.kind == ActionKind::forward) {
    return between(schedule, rank, action, Direction::forward, out);
  }
  if (makes_input_gradient(action.kind)) {
    return between(schedule, rank, action, Direction::backward, out);
  }
  return std::nullopt;
}

}  // namespace

std::optional<Message> message_into(const PipelineSchedule& schedule, int rank,
                                    const Action& action) {
  return of_compute(schedule, rank, action, false);
}

std::optional<Message> message_out_of(const PipelineSchedule& schedule, int rank,
                                      const Action& action) {
  return of_compute(schedule, rank, action, true);
}

std::optional<Message> message_of(const PipelineSchedule& schedule, int rank,
                                  const Action& action) {
  const ActionKind kind = action.kind;
  if (is_compute(kind)) return std::nullopt;
  const bool goes_on = kind == ActionKind::send_forward || kind == ActionKind::recv_forward;
  return between(schedule, rank, action, goes_on ? Direction::forward : Direction::backward,
                 is_send(kind));
}

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
  const std::vector<Action>& cells = schedule.actions[index_of(rank)];
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
