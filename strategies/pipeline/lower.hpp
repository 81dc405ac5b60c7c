#pragma once

#include <vector>

#include "strategies/pipeline/schedule.hpp"

// Adds sends and receives to a schedule of computation.
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
