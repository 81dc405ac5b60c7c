#include "tests/harness/corpus/corpus_row.hpp"
#include "tests/harness/corpus/program.hpp"

// Messages between two ranks that name each other.
namespace shardsim::corpus {

namespace {

constexpr std::int64_t kMessageCount = 32;

void send_send(RankContext& context, const Plant& plant) {
  if (context.size() < 2 || context.rank() > 1) return;
  const int peer = 1 - context.rank();
  const Tensor out = context.tensor(kMessageCount);
  const Tensor in = context.tensor(kMessageCount);
  if (plant.in(context) || context.rank() == 0) {
    plant.next_line();
    context.world().send(out, peer).wait();
    context.world().recv(in, peer).wait();
  } else {
    context.world().recv(in, peer).wait();
    context.world().send(out, peer).wait();
  }
}

void ring(RankContext& context, const Plant& plant) {
  const int size = context.size();
  if (size < 2) return;
  const int right = (context.rank() + 1) % size;
  const int left = (context.rank() + size - 1) % size;
  const Tensor out = context.tensor(kMessageCount);
  const Tensor in = context.tensor(kMessageCount);
  if (plant.in(context)) {
    plant.next_line();
    context.world().send(out, right).wait();
    context.world().recv(in, left).wait();
  } else {
    const P2pOp both[] = {{P2pOp::Kind::send, out, right}, {P2pOp::Kind::recv, in, left}};
    context.world().batch(both).wait();
  }
}

void p2p_crosses_collective(RankContext& context, const Plant& plant) {
  const Tensor buffer = context.tensor(kMessageCount);
  const int rank = context.rank();
  const bool crossed = plant.in(context) && rank == 1;
  if (crossed) {
    plant.next_line();
    context.world().recv(buffer, 0).wait();
  }
  if (rank == 0) plant.next_line();
  context.world().barrier().wait();
  if (context.size() < 2) return;
  if (rank == 0) context.world().send(buffer, 1).wait();
  if (rank == 1 && !crossed) context.world().recv(buffer, 0).wait();
}

// Rank 0 sends two, the last rank takes one.
void unmatched(RankContext& context, const Plant& plant) {
  constexpr int kTag = 7;
  if (context.size() < 2) return;
  const int to = context.size() - 1;
  const Tensor first = context.tensor(kMessageCount);
  const Tensor second = context.tensor(kMessageCount);
  if (context.rank() == 0) {
    context.messages().send(first, to, kTag).wait();
    plant.next_line();
    context.messages().send(second, to, kTag).wait();
  }
  if (context.rank() == to) {
    context.messages().recv(first, 0, kTag).wait();
    if (!plant.in(context)) context.messages().recv(second, 0, kTag).wait();
  }
}

void unmatched_receive(RankContext& context, const Plant& plant) {
  constexpr int kTag = 7;
  if (context.size() < 2) return;
  const int to = context.size() - 1;
  const Tensor buffer = context.tensor(kMessageCount);
  if (context.rank() == 0 && !plant.in(context)) context.messages().send(buffer, to, kTag).wait();
  if (context.rank() == to) {
    plant.next_line();
    context.messages().recv(buffer, 0, kTag).wait();
  }
}

void unmatched_on_stream(RankContext& context, const Plant& plant) {
  if (context.size() < 2) return;
  const int to = context.size() - 1;
  const Tensor first = context.tensor(kMessageCount);
  const Tensor second = context.tensor(kMessageCount);
  if (context.rank() == 0) {
    context.world().send(first, to).wait();
    plant.next_line();
    context.world().send(second, to).wait();
  }
  if (context.rank() == to) {
    context.world().recv(first, 0).wait();
    if (!plant.in(context)) context.world().recv(second, 0).wait();
  }
}

void truncated(RankContext& context, const Plant& plant) {
  if (context.size() < 2) return;
  const int to = context.size() - 1;
  if (context.rank() == 0) {
    const Tensor message = context.tensor(kMessageCount);
    plant.next_line();
    context.messages().send(message, to, 0).wait();
  }
  if (context.rank() == to) {
    const Tensor smaller = context.tensor(plant.in(context) ? kMessageCount - 1 : kMessageCount);
    plant.next_line();
    context.messages().recv(smaller, 0, 0).wait();
  }
}

void tags_differ(RankContext& context, const Plant& plant) {
  if (context.size() < 2) return;
  const int to = context.size() - 1;
  const Tensor buffer = context.tensor(kMessageCount);
  if (context.rank() == 0) {
    plant.next_line();
    context.messages().send(buffer, to, 1).wait();
  }
  if (context.rank() == to) {
    const int tag = plant.in(context) ? 2 : 1;
    plant.next_line();
    context.messages().recv(buffer, 0, tag).wait();
  }
}

// The last two ranks. One communicator runs one operation after the other, and both send first.
void outside_of_batch(RankContext& context, const Plant& plant) {
  const int size = context.size();
  if (size < 2 || context.rank() < size - 2) return;
  const int peer = is_last(context) ? size - 2 : size - 1;
  const Tensor out = context.tensor(kMessageCount);
  const Tensor in = context.tensor(kMessageCount);
  if (plant.in(context)) {
    plant.next_line();
    Work send = context.world().send(out, peer);
    plant.next_line();
    Work recv = context.world().recv(in, peer);
    send.wait();
    recv.wait();
  } else {
    const P2pOp both[] = {{P2pOp::Kind::send, out, peer}, {P2pOp::Kind::recv, in, peer}};
    context.world().batch(both).wait();
  }
}

}  // namespace

std::vector<Row> message_rows() {
  const auto ends = [](int size) { return std::vector<int>{0, size - 1}; };
  const auto last_two = [](int size) { return std::vector<int>{size - 2, size - 1}; };
  return in_file({
      {"C14", "both send first", send_send, "BUFFER_HAZARD", these({0, 1}), Who::every},
      {"C15", "ring: all send, then receive", ring, "BUFFER_HAZARD", all(), Who::every, "bytes"},
      {"C16", "message crosses a collective", p2p_crosses_collective, "DEADLOCK", these({0, 1}),
       Who::every},
      {"C17", "two messages sent, one taken", unmatched, "P2P_UNMATCHED", ends, Who::every,
       "tag 7"},
      {"C17", "receive without a send", unmatched_receive, "P2P_UNMATCHED", ends, Who::every,
       "tag 7"},
      {"C17", "two sends, one receive, of a communicator", unmatched_on_stream, "P2P_UNMATCHED",
       ends, Who::every},
      {"C18", "receive smaller than the message", truncated, "P2P_TRUNC", ends, Who::every, "31"},
      {"C19", "tags differ", tags_differ, "P2P_TAG", ends, Who::every, "tag 2"},
      {"C27", "neighbours exchange outside a batch", outside_of_batch, "BUFFER_HAZARD", last_two,
       Who::every, "ncclGroupStart"},
  });
}

}  // namespace shardsim::corpus
