#include "backends/traffic_counters.hpp"

#include "backends/call.hpp"

namespace shardsim {

TrafficCounters& operator+=(TrafficCounters& sum, const TrafficCounters& more) {
  sum.payload_sent += more.payload_sent;
  sum.payload_received += more.payload_received;
  sum.padding_sent += more.padding_sent;
  sum.scalar_sent += more.scalar_sent;
  sum.scalar_received += more.scalar_received;
  sum.to_next += more.to_next;
  sum.from_previous += more.from_previous;
  sum.messages += more.messages;
  sum.scalar_messages += more.scalar_messages;
  sum.calls += more.calls;
  sum.scalar_calls += more.scalar_calls;
  return sum;
}

void add_call(GroupTraffic& traffic, const CallRecord& call, bool point_to_point,
              const TrafficCounters& moved, const LinkTable& links) {
  traffic.counters += moved;
  ++(call.traffic == TrafficClass::scalar ? traffic.counters.scalar_calls : traffic.counters.calls);
  if (moved.payload_sent > 0) {
    traffic.by_operation[point_to_point ? "send" : call.name] += moved.payload_sent;
  }
  for (const auto& [ends, counts] : links) traffic.links[ends] += counts;
}

}  // namespace shardsim
