#include <algorithm>
#include <utility>

#include "backends/replay/replay_rank.hpp"
#include "backends/replay/replay_world.hpp"
#include "backends/trace_hash.hpp"

// Counts the traffic of a replay's groups, and writes the slices of its traces.
namespace shardsim {

namespace {

Moved moved_by_transfer(const ReplayOperation& transfer, int member) {
  if (transfer.source == transfer.destination) return {};
  return one_message(member == transfer.source,
                     transfer.message->count * size_of(transfer.message->dtype));
}

Moved moved(const ReplayOperation& operation, int member) {
  if (operation.kind == ReplayOperation::Kind::transfer) {
    return moved_by_transfer(operation, member);
  }
  if (operation.kind == ReplayOperation::Kind::collective) {
    if (operation.even) return operation.even_moved;
    const bool by_tree = operation.algorithm == Algorithm::tree;
    return moved_by(operation.shape, operation.algorithm,
                    by_tree ? &operation.group->double_tree() : nullptr, member);
  }
  Moved sum;
  for (const ReplayOperation* part : operation.parts) {
    const Traffic one = moved_by_transfer(*part, member).payload;
    sum.payload.sent += one.sent;
    sum.payload.received += one.received;
    sum.payload.messages += one.messages;
  }
  return sum;
}

void count_off_ring(const ReplayOperation& operation, int member) {
  for (const ReplayOperation* part : operation.parts) count_off_ring(*part, member);
  if (operation.kind == ReplayOperation::Kind::transfer) {
    if (operation.source == operation.destination) return;
    operation.group->links().add(member == operation.source, operation.source,
                                 operation.destination,
                                 operation.message->count * size_of(operation.message->dtype));
  } else if (operation.kind == ReplayOperation::Kind::collective &&
             leaves_ring(operation.shape, operation.algorithm)) {
    add_off_ring(operation.group->links(), operation.shape, member);
  }
}

// A batch says of each half how it counts, and of itself payload.
TrafficClass traffic_class_of(const ReplayOperation& operation) {
  return operation.kind == ReplayOperation::Kind::join ? TrafficClass::payload
                                                       : operation.call->record.traffic;
}

}  // namespace

void ReplayWorld::account(ReplayRank& rank, ReplayStream& stream, ReplayOperation& operation) {
  const Moved all = moved(operation, stream.member);
  const TrafficClass traffic = traffic_class_of(operation);
  add_moved(stream.group->counters[static_cast<std::size_t>(stream.member)], all, traffic);
  if (traffic != TrafficClass::scalar) count_off_ring(operation, stream.member);
  add_busy(rank.state.index(), operation.end - operation.start);
  if (stream.track < 0) return;
  TraceSlice slice{
      .begin = operation.start, .end = operation.end, .bytes = all.payload.sent + all.padding_sent};
  switch (operation.kind) {
    case ReplayOperation::Kind::collective:
      slice.name = operation.call->record.name;
      slice.label = operation.call->record.label;
      slice.operation = trace_id_of(stream.group->id, operation.sequence);
      break;
    case ReplayOperation::Kind::transfer:
      slice.name = stream.member == operation.source ? "send" : "recv";
      slice.label = operation.call->record.label;
      slice.operation = trace_id_of(stream.group->id, operation.source, operation.destination,
                                    operation.sequence);
      break;
    case ReplayOperation::Kind::join:
      slice.name = operation.call->record.name;
      slice.label = operation.call->record.label;
      slice.operation = -1;
      break;
  }
  rank.state.trace()->tracks[static_cast<std::size_t>(stream.track)].slices.push_back(slice);
}

void ReplayWorld::retire() {
  for (const ReplayGroup& group : groups_) {
    for (int member = 0; member < group.size(); ++member) {
      add_traffic(group.name, group.layout.members[static_cast<std::size_t>(member)],
                  group.counters[static_cast<std::size_t>(member)]);
    }
  }
}

void ReplayWorld::for_each_link(const std::function<void(const LinkTraffic&)>& visit) const {
  for (const ReplayGroup& group : groups_) {
    const LinkTable links =
        links_of(group.counters, group.off_ring.get(), group.tree ? &*group.tree : nullptr);
    for (const auto& [ends, counts] : links) {
      visit({.group = group.name,
             .from_rank = group.layout.members[static_cast<std::size_t>(ends.first)],
             .to_rank = group.layout.members[static_cast<std::size_t>(ends.second)],
             .counts = counts});
    }
  }
}

}  // namespace shardsim
