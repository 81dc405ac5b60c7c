#include "strategies/pipeline/message.hpp"

namespace shardsim {

namespace {

std::optional<Message> between(const PipelineSchedule& schedule, const Message& message) {
  const auto exists = [&](int stage) { return stage >= 0 && stage < schedule.num_stages(); };
  if (!exists(message.from_stage) || !exists(message.to_stage)) return std::nullopt;
  const int from = schedule.rank_of(message.from_stage);
  if (from == schedule.rank_of(message.to_stage)) return std::nullopt;
  return message;
}

}  // namespace

std::optional<Message> message_into(const PipelineSchedule& schedule, int rank,
                                    const Action& action) {
  const int stage = schedule.stage_of(rank, action.chunk);
  if (action.kind == ActionKind::forward) {
    return between(schedule, {Direction::forward, stage - 1, stage, action.microbatch});
  }
  if (makes_input_gradient(action.kind)) {
    return between(schedule, {Direction::backward, stage + 1, stage, action.microbatch});
  }
  return std::nullopt;
}

std::optional<Message> message_out_of(const PipelineSchedule& schedule, int rank,
                                      const Action& action) {
  const int stage = schedule.stage_of(rank, action.chunk);
  if (action.kind == ActionKind::forward) {
    return between(schedule, {Direction::forward, stage, stage + 1, action.microbatch});
  }
  if (makes_input_gradient(action.kind)) {
    return between(schedule, {Direction::backward, stage, stage - 1, action.microbatch});
  }
  return std::nullopt;
}

std::optional<Message> message_of(const PipelineSchedule& schedule, int rank,
                                  const Action& action) {
  const auto as = [&](ActionKind kind) { return Action{kind, action.chunk, action.microbatch}; };
  switch (action.kind) {
    case ActionKind::send_forward:
      return message_out_of(schedule, rank, as(ActionKind::forward));
    case ActionKind::recv_forward:
      return message_into(schedule, rank, as(ActionKind::forward));
    case ActionKind::send_backward:
      return message_out_of(schedule, rank, as(ActionKind::backward));
    case ActionKind::recv_backward:
      return message_into(schedule, rank, as(ActionKind::backward));
    default:
      return std::nullopt;
  }
}

}  // namespace shardsim
