#include "backends/replay/replay_operation.hpp"

#include <algorithm>

namespace shardsim {

bool ReplayOperation::is_followed_by(const ReplayOperation& other) const {
  return std::ranges::find(dependents, &other) != dependents.end();
}

ReplayShape::ReplayShape(const ProgramCall& call, const std::vector<const ProgramCall*>& calls,
                         int size) {
  for (const ProgramCall* own : calls) {
    pairs_.push_back({own->send_counts, own->recv_counts, own->record.site});
  }
  shape_ = {.row = &row_of(call.collective),
            .size = size,
            .root = call.record.root,
            .count = call.record.count,
            .width = size_of(call.record.dtype),
            .padding = call.record.padding,
            .counts = call.counts,
            .padding_at = call.padding_at,
            .pairs = pairs_};
}

// --- Groups ------------------------------------------------------------------------------------

ReplayGroup::ReplayGroup(const Cluster& cluster, std::uint64_t path, std::uint64_t id,
                         const std::string& name, std::vector<int> members, Twins twins,
                         int running)
    : path(path),
      id(id),
      name(name),
      layout(cluster, std::move(members)),
      twins(std::move(twins)),
      num_running(running),
      counters(layout.size()) {}

const DoubleTree& ReplayGroup::double_tree() {
  if (!tree) tree.emplace(layout);
  return *tree;
}

GroupLinks& ReplayGroup::links() {
  if (off_ring == nullptr) off_ring = std::make_unique<GroupLinks>();
  return *off_ring;
}

ReplayGroup::Channel& ReplayGroup::channel(int source, int destination) {
  if (channels.empty()) channels.resize(layout.members.size());
  std::vector<Channel>& from = channels[static_cast<std::size_t>(source)];
  const auto found = std::ranges::lower_bound(from, destination, {}, &Channel::destination);
  if (found != from.end() && found->destination == destination) return *found;
  return *from.insert(found, {.destination = destination});
}

void ReplayGroup::settle(const Collectives& kind) {
  const ReplayShape shape(*kind.call, kind.calls, size());
  const Algorithm algorithm = kind.price.algorithm;
  const TrafficClass traffic = kind.call->record.traffic;
  const DoubleTree* const by_tree = algorithm == Algorithm::tree ? &double_tree() : nullptr;
  const bool leaves = traffic != TrafficClass::scalar && leaves_ring(*shape, algorithm);
  int end = 0;
  for (int member = 0; member < size(); member = end) {
    end = moves_evenly_until(*shape, algorithm, member);
    const Moved moved = moved_by(*shape, algorithm, by_tree, member);
    counters.add(member, end,
                 [&](TrafficCounters& own) { add_moved(own, moved, traffic, kind.times); });
  }
  for (int member = 0; leaves && member < size(); ++member) {
    add_off_ring(links(), *shape, member, kind.times);
  }
}

namespace {

void count_messages(ReplayGroup& group, int source, int destination, bool sends,
                    const std::vector<ReplayGroup::Messages>& kinds) {
  const int member = sends ? source : destination;
  const bool moves = source != destination;
  for (const ReplayGroup::Messages& kind : kinds) {
    const Moved moved = moves ? one_message(sends, kind.bytes) : Moved();
    group.counters.add(member, member + 1, [&](TrafficCounters& own) {
      add_moved(own, moved, kind.traffic, kind.times, !kind.in_batch);
    });
    if (!moves || kind.traffic == TrafficClass::scalar) continue;
    group.links().add(sends, source, destination, kind.bytes, kind.times);
  }
}

}  // namespace

void ReplayGroup::settle_counts() {
  for (const Collectives& kind : collectives) settle(kind);
  for (int member = 0; member < static_cast<int>(num_batches.size()); ++member) {
    const std::int64_t batches = num_batches[static_cast<std::size_t>(member)];
    counters.add(member, member + 1,
                 [&](TrafficCounters& own) { add_moved(own, {}, TrafficClass::payload, batches); });
  }
  for (std::size_t source = 0; source < channels.size(); ++source) {
    for (const Channel& channel : channels[source]) {
      const auto from = static_cast<int>(source);
      count_messages(*this, from, channel.destination, true, channel.sent);
      count_messages(*this, from, channel.destination, false, channel.received);
    }
  }
}

// --- Pool --------------------------------------------------------------------------------------

ReplayOperation& ReplayPool::take(ReplayOperation::Kind kind, ReplayGroup& group) {
  if (free_.empty()) {
    free_.push_back(&all_.emplace_back());
    free_.back()->number = all_.size() - 1;
  }
  ReplayOperation& operation = *free_.back();
  free_.pop_back();
  operation.kind = kind;
  operation.resolved = false;
  operation.is_buffered = false;
  operation.group = &group;
  operation.start = Time();
  operation.end = Time();
  operation.pending = 0;
  operation.num_arrived = 0;
  operation.algorithm = Algorithm::ring;
  operation.message = nullptr;
  operation.calls.clear();
  operation.parts.clear();
  return operation;
}

}  // namespace shardsim
