#include "backends/nccl/nccl_traffic.hpp"

namespace shardsim {

namespace {

struct Message {
  bool sends = false;
  int peer = 0;
  std::int64_t bytes = 0;
  std::int64_t padding = 0;  // Bytes.
};

void count(CallTraffic& traffic, int member, bool scalar, const Message& message) {
  if (message.peer == member) return;  // Nothing travels.
  TrafficCounters& moved = traffic.moved;
  const std::int64_t real = message.bytes - message.padding;
  if (message.sends) {
    ++moved.messages;
    if (scalar) ++moved.scalar_messages;
    (scalar ? moved.scalar_sent : moved.payload_sent) += real;
    if (!scalar) moved.padding_sent += message.padding;
  } else {
    (scalar ? moved.scalar_received : moved.payload_received) += real;
  }
  if (scalar) return;
  LinkCounts& link =
      message.sends ? traffic.links[{member, message.peer}] : traffic.links[{message.peer, member}];
  (message.sends ? link.sent : link.received) += real;
  if (message.sends) ++link.messages;
}

}  // namespace

CallTraffic count_traffic(const MessagePlan& plan, int member, const CallRecord& record,
                          std::int64_t width, std::span<const ElementRange> padding_at) {
  CallTraffic traffic;
  for (const MessageRound& round : plan.rounds) {
    for (const MessageStep& step : round.messages) {
      const std::int64_t first = step.slice.begin;
      count(traffic, member, record.traffic == TrafficClass::scalar,
            {.sends = step.kind == MessageStep::Kind::send,
             .peer = step.peer,
             .bytes = step.slice.count * width,
             .padding = overlap(padding_at, first, first + step.slice.count) * width});
    }
  }
  return traffic;
}

CallTraffic count_traffic(std::span<const P2pOp> halves, int member, const CallRecord& record) {
  CallTraffic traffic;
  for (const P2pOp& half : halves) {
    count(traffic, member, record.traffic == TrafficClass::scalar,
          {.sends = half.kind == P2pOp::Kind::send,
           .peer = half.peer,
           .bytes = half.buffer.num_bytes()});
  }
  return traffic;
}

}  // namespace shardsim
