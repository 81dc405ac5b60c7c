#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace shardsim {

/// Traffic of one member over one communicator so far.
struct TrafficCounters {
  std::int64_t payload_sent = 0;
  std::int64_t payload_received = 0;
  std::int64_t padding_sent = 0;
  std::int64_t scalar_sent = 0;
  std::int64_t scalar_received = 0;
  std::int64_t to_next = 0;  ///< Payload along the ring of members; the simulation's only.
  std::int64_t from_previous = 0;
  std::int64_t messages = 0;  ///< Sent, those of scalars included.
  std::int64_t scalar_messages = 0;
  std::int64_t calls = 0;  ///< Collectives and transfers of payload.
  std::int64_t scalar_calls = 0;
};

/// One directed link between two members: payload as its two ends counted it, and the messages of
/// calls with payload.
struct LinkCounts {
  std::int64_t sent = 0;
  std::int64_t received = 0;
  std::int64_t messages = 0;

  LinkCounts& operator+=(const LinkCounts& more) {
    sent += more.sent;
    received += more.received;
    messages += more.messages;
    return *this;
  }
};

/// By sender and receiver, ranks in the group.
using LinkTable = std::map<std::pair<int, int>, LinkCounts>;

/// Payload sent, by name of the operation; point-to-point, batched or not, is "send".
using SentByOperation = std::map<std::string, std::int64_t>;

/// Adds up field by field.
inline TrafficCounters& operator+=(TrafficCounters& sum, const TrafficCounters& more) {
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

/// The traffic of `count` members with the same.
inline TrafficCounters times(const TrafficCounters& counters, std::int64_t count) {
  return {.payload_sent = counters.payload_sent * count,
          .payload_received = counters.payload_received * count,
          .padding_sent = counters.padding_sent * count,
          .scalar_sent = counters.scalar_sent * count,
          .scalar_received = counters.scalar_received * count,
          .to_next = counters.to_next * count,
          .from_previous = counters.from_previous * count,
          .messages = counters.messages * count,
          .scalar_messages = counters.scalar_messages * count,
          .calls = counters.calls * count,
          .scalar_calls = counters.scalar_calls * count};
}

/// Traffic of one group, as this member counted it.
struct GroupTraffic {
  std::string name;
  std::vector<int> members;  ///< World ranks.
  TrafficCounters counters;
  LinkTable links;  ///< Ranks in the group.
  SentByOperation by_operation;
};

}  // namespace shardsim
