#include "backends/group_traffic.hpp"

namespace shardsim {

void add_call(GroupTraffic& traffic, const CallRecord& call, bool point_to_point,
              const TrafficCounters& moved, const LinkTable& links) {
  traffic.counters += moved;
  ++(call.traffic == TrafficClass::scalar ? traffic.counters.scalar_calls : traffic.counters.calls);
  if (moved.payload_sent > 0) {
    traffic.by_operation[point_to_point ? "send" : call.name] += moved.payload_sent;
  }
  for (const auto& [ends, counts] : links) {
    LinkCounts& link = traffic.links[ends];
    link.sent += counts.sent;
    link.received += counts.received;
    link.messages += counts.messages;
  }
}

}  // namespace shardsim
