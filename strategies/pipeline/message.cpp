#include "strategies/pipeline/message.hpp"

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
  switch (action.kind) {
    case ActionKind::send_forward:
      return between(schedule, rank, action, Direction::forward, true);
    case ActionKind::recv_forward:
      return between(schedule, rank, action, Direction::forward, false);
    case ActionKind::send_backward:
      return between(schedule, rank, action, Direction::backward, true);
    case ActionKind::recv_backward:
      return between(schedule, rank, action, Direction::backward, false);
    default:
      return std::nullopt;
  }
}

}  // namespace shardsim
