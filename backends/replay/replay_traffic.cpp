#include <algorithm>
#include <utility>

#include "backends/replay/replay_world.hpp"
#include "backends/trace_hash.hpp"

// The traffic of a replay's groups, and the slices of its traces.
namespace shardsim {

namespace {

Moved moved_by_message(const ReplayOperation& message, int member) {
  if (message.source == message.destination) return {};
  return one_message(member == message.source, message.message->bytes());
}

Moved moved(const ReplayOperation& operation, int member) {
  switch (operation.kind) {
    case ReplayOperation::Kind::collective:
      return moved_by(
          *ReplayShape(*operation.call, operation.calls, operation.group->size()),
          operation.algorithm,
          operation.algorithm == Algorithm::tree ? &operation.group->double_tree() : nullptr,
          member);
    case ReplayOperation::Kind::transfer:
    case ReplayOperation::Kind::departure:
      return moved_by_message(operation, member);
    case ReplayOperation::Kind::join:
      break;
  }
  Moved sum;
  for (const ReplayOperation* part : operation.parts) {
    sum.payload.sent += moved_by_message(*part, member).payload.sent;
  }
  return sum;
}

}  // namespace

void ReplayWorld::trace(ReplayGang& gang, const GangStream& stream,
                        const ReplayOperation& operation) {
  const int place = stream.streams.front().place;
  const Moved all = moved(operation, place);
  const ReplayGroup& group = *operation.group;
  TraceSlice slice{.name = operation.call->record.name,
                   .begin = operation.start,
                   .end = operation.end,
                   .bytes = all.payload.sent + all.padding_sent,
                   .label = operation.call->record.label};
  switch (operation.kind) {
    case ReplayOperation::Kind::collective:
      slice.operation = trace_id_of(group.id, operation.sequence);
      break;
    case ReplayOperation::Kind::transfer:
    case ReplayOperation::Kind::departure:
      slice.name = place == operation.source ? "send" : "recv";
      slice.operation =
          trace_id_of(group.id, operation.source, operation.destination, operation.sequence);
      break;
    case ReplayOperation::Kind::join:
      slice.operation = -1;
      break;
  }
  RankTrace& trace = *gang.ranks.front()->trace();
  trace.tracks[static_cast<std::size_t>(stream.track)].slices.push_back(slice);
}

void ReplayWorld::retire() {
  for (ReplayGroup& group : groups_) {
    group.settle_counts();
    add_traffic(group.name, group.counters.sum(),
                1 + static_cast<std::int64_t>(group.twins.size()));
  }
}

std::vector<std::int64_t> ReplayWorld::sent_by_rank() const {
  std::vector<std::int64_t> sent(static_cast<std::size_t>(num_ranks()));
  for (const ReplayGroup& group : groups_) {
    group.counters.for_each([&](int first, int end, const TrafficCounters& counters) {
      for (int member = first; member < end; ++member) {
        add_sent(counters.payload_sent, group.layout.members, group.twins, member, sent);
      }
    });
  }
  return sent;
}

void ReplayWorld::for_equal_links(const std::function<void(const EqualLinks&)>& visit) const {
  for (const ReplayGroup& group : groups_) {
    if (group.off_ring == nullptr && group.counters.has_no_links()) continue;
    const LinkTable links =
        links_of(group.counters.each(), group.off_ring.get(), group.tree ? &*group.tree : nullptr);
    for (const auto& [ends, counts] : links) {
      visit({.group = group.name,
             .members = group.layout.members,
             .twins = group.twins,
             .from = ends.first,
             .to = ends.second,
             .counts = counts});
    }
  }
}

}  // namespace shardsim
