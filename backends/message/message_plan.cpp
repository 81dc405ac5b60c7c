#include "backends/message/message_plan.hpp"

#include <utility>

namespace shardsim {

namespace {

using StepKind = MessageStep::Kind;

// One member's view of the ring.
class Ring {
 public:
  explicit Ring(const MessageCall& call) : call_(call) {}

  // After it, chunk `member` of the full buffer is the reduction.
  void reduce_scatter(MessagePlan& plan) const {
    for (int step = 0; step < call_.size - 1; ++step) {
      MessageRound round = exchange(-1 - step, StepKind::receive_reduced);
      if (step == call_.size - 2) round.completed = chunk(0);
      plan.rounds.push_back(std::move(round));
    }
  }

  // Before it, chunk `member` is in place; after it, all are.
  void all_gather(MessagePlan& plan) const {
    for (int step = 0; step < call_.size - 1; ++step) {
      plan.rounds.push_back(exchange(-step, StepKind::receive));
    }
  }

  void chain(MessagePlan& plan) const {
    const bool reduces = row_of(call_.kind).reduces;
    const int start = reduces ? (call_.root + 1) % call_.size : call_.root;
    const int position = (call_.member - start + call_.size) % call_.size;
    const Slice all{0, call_.offsets.back()};
    if (position > 0) {
      const StepKind kind = reduces ? StepKind::receive_reduced : StepKind::receive;
      MessageRound round{.messages = {{kind, neighbour(-1), all}}};
      if (reduces && position == call_.size - 1) round.completed = all;
      plan.rounds.push_back(std::move(round));
    }
    if (position < call_.size - 1) {
      plan.rounds.push_back({.messages = {{StepKind::send, neighbour(1), all}}});
    }
  }

  void star(MessagePlan& plan) const {
    const bool gathers = row_of(call_.kind).root == RootRole::target;
    MessageRound round;
    if (call_.member != call_.root) {
      round.messages.push_back(
          {gathers ? StepKind::send : StepKind::receive, call_.root, chunk(0)});
    } else {
      for (int distance = 1; distance < call_.size; ++distance) {
        round.messages.push_back(
            {gathers ? StepKind::receive : StepKind::send, neighbour(distance), chunk(distance)});
      }
    }
    plan.rounds.push_back(std::move(round));
  }

 private:
  [[nodiscard]] int neighbour(int distance) const {
    return (call_.member + distance + 2 * call_.size) % call_.size;
  }
  // The chunk of the member at `distance` along the ring.
  [[nodiscard]] Slice chunk(int distance) const {
    const auto index = static_cast<std::size_t>(neighbour(distance));
    return {call_.offsets[index], call_.offsets[index + 1] - call_.offsets[index]};
  }
  // The chunk at `distance` goes to the next member, the one before it comes from the previous.
  [[nodiscard]] MessageRound exchange(int distance, StepKind kind) const {
    return {.messages = {{kind, neighbour(-1), chunk(distance - 1)},
                         {StepKind::send, neighbour(1), chunk(distance)}}};
  }

  const MessageCall& call_;
};

}  // namespace

MessagePlan plan_messages(const MessageCall& call) {
  MessagePlan plan;
  if (call.size == 1) return plan;
  const Ring ring(call);
  const CollectiveRow& row = row_of(call.kind);
  if (row.path == CollectivePath::chain) ring.chain(plan);
  if (row.path == CollectivePath::star) ring.star(plan);
  if (row.path == CollectivePath::ring) {
    if (row.reduces) ring.reduce_scatter(plan);
    if (row.output == BufferPart::whole) ring.all_gather(plan);
  }
  return plan;
}

MessagePlan plan_tree_messages(const DoubleTree& tree, int size, int member, std::int64_t count) {
  MessagePlan plan;
  std::int64_t begin = 0;
  for (int which = 0; which < 2; ++which) {
    const Slice half{begin, chunk_size(count, 2, which)};
    begin += half.count;
    MessageRound from_children;
    MessageRound to_children;
    for (int child = 0; child < size; ++child) {
      if (tree.parent(which, child) != member) continue;
      from_children.messages.push_back({StepKind::receive_reduced, child, half});
      to_children.messages.push_back({StepKind::send, child, half});
    }
    const int parent = tree.parent(which, member);
    if (parent < 0) from_children.completed = half;
    plan.rounds.push_back(std::move(from_children));
    if (parent >= 0) {
      plan.rounds.push_back({.messages = {{StepKind::send, parent, half}}});
      plan.rounds.push_back({.messages = {{StepKind::receive, parent, half}}});
    }
    plan.rounds.push_back(std::move(to_children));
  }
  return plan;
}

MessagePlan plan_pairwise_messages(int member, std::span<const std::int64_t> send,
                                   std::span<const std::int64_t> receive) {
  const int size = static_cast<int>(send.size());
  std::vector<Slice> sent(send.size());
  std::vector<Slice> received(send.size());
  std::int64_t send_begin = 0;
  std::int64_t receive_begin = 0;
  for (std::size_t peer = 0; peer < send.size(); ++peer) {
    sent[peer] = {send_begin, send[peer]};
    received[peer] = {receive_begin, receive[peer]};
    send_begin += send[peer];
    receive_begin += receive[peer];
  }
  MessagePlan plan;
  for (int step = 1; step < size; ++step) {
    const int to = (member + step) % size;
    const int from = (member - step + size) % size;
    MessageRound round;
    const Slice& in = received[static_cast<std::size_t>(from)];
    const Slice& out = sent[static_cast<std::size_t>(to)];
    if (in.count > 0) round.messages.push_back({StepKind::receive, from, in});
    if (out.count > 0) round.messages.push_back({StepKind::send, to, out});
    if (!round.messages.empty()) plan.rounds.push_back(std::move(round));
  }
  return plan;
}

}  // namespace shardsim
