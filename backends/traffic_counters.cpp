#include "backends/traffic_counters.hpp"

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

}  // namespace shardsim
