#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "strategies/pipeline/schedule.hpp"

// Adds sends and receives to a schedule of computation, and says which tensor an action hands to,
// or needs from, another rank.
//
// The protocol that the executor follows, and that validate() and timeline() model exactly (why:
// docs/decisions/0014-pipeline-schedules.md):
//
// - An edge is a direction (forward or backward) from one rank to another. Each edge has a
//   communicator of its own, hence a stream: transfers of one edge run one after the other and
//   match in the order in which they are posted; different edges never wait for each other.
// - A send or receive is posted without blocking. The transfer starts when both sides have posted
//   it and the edge is free (rendezvous).
// - F, B and I wait for their own receive. It is posted one compute action ahead: before the
//   compute action that precedes the one that needs it, so that the transfer hides behind it.
// - A block of an F and a B that overlap counts as one compute action: it waits for the receives of
//   both, and both its sends are posted when it ends.
// - A send is posted as soon as its tensor is made. First the rank waits for the send that it
//   posted `sends_in_flight` (a member of the schedule, mostly 2) earlier on the same edge. So a
//   fast rank does not fill the memory with tensors that no rank has fetched.
// - At the end of the step the rank waits for all its sends.
namespace shardsim {

enum class Direction : std::uint8_t { forward, backward };

/// One transfer. Between two chunks of one rank there is none: the tensor is handed over in place.
struct Message {
  Direction direction = Direction::forward;
  int from_stage = 0;
  int to_stage = 0;
  int microbatch = 0;
  int from_rank = 0;  ///< Ranks of the stages.
  int to_rank = 0;

  friend bool operator==(const Message&, const Message&) = default;
};

/// The edge it takes, as a number in [0, num_edges()): from a rank there are at most two in each
/// direction, to the next rank on the ring and, with V placement, to the one before.
[[nodiscard]] inline std::size_t edge_of(const Message& message, int num_ranks) {
  const int next = message.from_rank + 1 == num_ranks ? 0 : message.from_rank + 1;
  const int lane = static_cast<int>(message.direction) * num_ranks + message.from_rank;
  return 2 * index_of(lane) + (message.to_rank == next ? 0 : 1);
}
[[nodiscard]] inline std::size_t num_edges(int num_ranks) { return 4 * index_of(num_ranks); }

/// The message that must arrive before an F, B or I of `rank` can run; none for other kinds.
[[nodiscard]] std::optional<Message> message_into(const PipelineSchedule& schedule, int rank,
                                                  const Action& action);

/// The message that an F, B or I of `rank` makes for another rank; none for other kinds.
[[nodiscard]] std::optional<Message> message_out_of(const PipelineSchedule& schedule, int rank,
                                                    const Action& action);

/// The message that a send or receive of `rank` moves. None for compute, at the ends of the
/// pipeline, and between chunks of one rank.
[[nodiscard]] std::optional<Message> message_of(const PipelineSchedule& schedule, int rank,
                                                const Action& action);

/// The same lists with SEND_F, RECV_F, SEND_B and RECV_B inserted. A tensor that stays on its rank
/// (p = 1, the turn of the V placement) gets neither.
/// REQUIRES: `schedule` is not lowered. It may otherwise be wrong; then so is the result.
[[nodiscard]] PipelineSchedule lower(const PipelineSchedule& schedule);

/// The same, and for every cell of the result the cell of `schedule` that it serves: itself, the
/// producer of what is sent, or the consumer of what is received.
struct LoweredSchedule {
  PipelineSchedule schedule;
  std::vector<std::vector<int>> origins;  ///< [rank][cell]
};
[[nodiscard]] LoweredSchedule lower_with_origins(const PipelineSchedule& schedule);

}  // namespace shardsim
