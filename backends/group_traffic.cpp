#include "backends/group_traffic.hpp"

#include <algorithm>
#include <cstddef>

namespace shardsim {

Moved one_message(bool sends, std::int64_t bytes) {
  Traffic traffic;
  (sends ? traffic.sent : traffic.received) = bytes;
  if (sends) traffic.messages = 1;
  return {.payload = traffic};
}

void add_moved(TrafficCounters& counters, const Moved& moved, TrafficClass traffic,
               std::int64_t times, bool is_call) {
  const std::int64_t calls = is_call ? times : 0;
  counters.messages += times * moved.payload.messages;
  if (traffic == TrafficClass::scalar) {
    counters.scalar_sent += times * moved.payload.sent;
    counters.scalar_received += times * moved.payload.received;
    counters.scalar_messages += times * moved.payload.messages;
    counters.scalar_calls += calls;
    return;
  }
  counters.payload_sent += times * moved.payload.sent;
  counters.payload_received += times * moved.payload.received;
  counters.padding_sent += times * moved.padding_sent;
  counters.to_next += times * moved.payload.to_next;
  counters.from_previous += times * moved.payload.from_previous;
  counters.calls += calls;
}

// --- Members -----------------------------------------------------------------------------------

std::size_t MemberCounters::split_at(int member) {
  const auto after = std::ranges::upper_bound(runs_, member, {}, &Run::first);
  const auto run = static_cast<std::size_t>(after - runs_.begin()) - 1;
  if (runs_[run].first == member) return run;
  runs_.insert(after, {member, runs_[run].counters});
  return run + 1;
}

TrafficCounters MemberCounters::sum() const {
  TrafficCounters sum;
  for_each([&sum](int first, int end, const TrafficCounters& counters) {
    sum += times(counters, end - first);
  });
  return sum;
}

std::vector<TrafficCounters> MemberCounters::each() const {
  std::vector<TrafficCounters> each;
  each.reserve(static_cast<std::size_t>(size_));
  for_each([&each](int first, int end, const TrafficCounters& counters) {
    each.insert(each.end(), static_cast<std::size_t>(end - first), counters);
  });
  return each;
}

bool MemberCounters::has_no_links() const {
  return std::ranges::all_of(runs_, [](const Run& run) {
    const TrafficCounters& counters = run.counters;
    return counters.messages == counters.scalar_messages && counters.to_next == 0 &&
           counters.from_previous == 0;
  });
}

// --- Links -------------------------------------------------------------------------------------

void GroupLinks::expect_all_pairs(int size) {
  if (paired_ > 0 || size > kMostPaired) return;
  paired_ = size;
  pairs_.resize(static_cast<std::size_t>(size) * static_cast<std::size_t>(size));
}

LinkCounts& GroupLinks::direct_link(int from, int to) {
  const auto sender = static_cast<std::size_t>(from);
  if (direct_.size() <= sender) direct_.resize(sender + 1);
  auto& links = direct_[sender];
  const auto place =
      std::ranges::lower_bound(links, to, {}, [](const auto& link) { return link.first; });
  if (place != links.end() && place->first == to) return place->second;
  return links.insert(place, {to, LinkCounts()})->second;
}

void GroupLinks::add_tree(int size, int member, std::int64_t count, std::int64_t element_bytes,
                          std::int64_t times) {
  trees_.resize(static_cast<std::size_t>(size));
  TreeSide& side = trees_[static_cast<std::size_t>(member)];
  for (int tree = 0; tree < 2; ++tree) {
    side.bytes[static_cast<std::size_t>(tree)] +=
        times * chunk_size(count, 2, tree) * element_bytes;
  }
  side.messages += times;
}

void GroupLinks::add_to(LinkTable& table, const DoubleTree* tree) const {
  for (std::size_t from = 0; from < direct_.size(); ++from) {
    for (const auto& [to, counts] : direct_[from]) table[{static_cast<int>(from), to}] += counts;
  }
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    const LinkCounts& counts = pairs_[i];
    if (counts.messages == 0 && counts.received == 0) continue;
    table[{static_cast<int>(i) / paired_, static_cast<int>(i) % paired_}] += counts;
  }
  const auto add_edge = [&](int which, int from, int to) {
    const TreeSide& sender = trees_[static_cast<std::size_t>(from)];
    const TreeSide& receiver = trees_[static_cast<std::size_t>(to)];
    table[{from, to}] += {.sent = sender.bytes[static_cast<std::size_t>(which)],
                          .received = receiver.bytes[static_cast<std::size_t>(which)],
                          .messages = sender.messages};
  };
  for (int which = 0; which < 2; ++which) {
    for (int member = 0; member < static_cast<int>(trees_.size()); ++member) {
      const int parent = tree->parent(which, member);
      if (parent < 0) continue;
      add_edge(which, member, parent);
      add_edge(which, parent, member);
    }
  }
}

LinkTable links_of(std::span<const TrafficCounters> counters, const GroupLinks* off_ring,
                   const DoubleTree* tree) {
  LinkTable table;
  if (off_ring != nullptr) off_ring->add_to(table, tree);
  // All other messages of a member went to the next member.
  std::vector<std::int64_t> along_ring(counters.size());
  for (std::size_t member = 0; member < counters.size(); ++member) {
    along_ring[member] = counters[member].messages - counters[member].scalar_messages;
  }
  for (const auto& [ends, counts] : table) {
    along_ring[static_cast<std::size_t>(ends.first)] -= counts.messages;
  }
  for (std::size_t member = 0; member < counters.size(); ++member) {
    const std::size_t next = (member + 1) % counters.size();
    const LinkCounts ring{.sent = counters[member].to_next,
                          .received = counters[next].from_previous,
                          .messages = along_ring[member]};
    if (ring.sent == 0 && ring.received == 0 && ring.messages == 0) continue;
    table[{static_cast<int>(member), static_cast<int>(next)}] += ring;
  }
  return table;
}

}  // namespace shardsim
