#include "backends/message/process_messages.hpp"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/backends/message_fixture.hpp"

// Messages with tags between processes keep the promises that they have in memory.
namespace shardsim {
namespace {

using ProcessTaggedBody = std::function<void(Runtime&, Communicator&, TaggedMessages&)>;

void run_process_messages(int ranks, const ProcessTaggedBody& body, const MessageCase& test = {}) {
  run_message_processes(
      ranks,
      [&](MessageRank& process) {
        ProcessRuntime runtime(process.rank());
        ProcessMessages messages(process, process.fork());
        {
          const auto world = process.world();
          body(runtime, *world, messages);
        }
        process.finish();
      },
      test);
}

const TrafficCounters& counters_of(const TaggedMessages& messages) {
  return static_cast<const ProcessMessages&>(messages).counters();
}

std::string process_code_of(int ranks, const ProcessTaggedBody& body) {
  try {
    run_process_messages(ranks, body);
  } catch (const CommunicationError& error) {
    return error.diagnosis().code;
  }
  return "NONE";
}

Tensor one_of(Runtime& runtime, double value, std::int64_t count = 1) {
  return filled(runtime, count, DType::fp32, [&](std::int64_t) { return value; });
}

}  // namespace

TEST_CASE("messages between processes are told apart by their tags") {
  for (const bool buffered : {false, true}) {
    run_process_messages(2,
                         [](Runtime& runtime, Communicator&, TaggedMessages& messages) {
                           if (messages.rank() == 0) {
                             Work first = messages.send(one_of(runtime, 1.0), 1, 7);
                             Work second = messages.send(one_of(runtime, 2.0), 1, 8);
                             second.wait();
                             first.wait();
                           } else {
                             const Tensor in = one_of(runtime, 0.0);
                             messages.recv(in, 0, 8).wait();
                             CHECK(in.get(0) == 2.0);
                             messages.recv(in, 0, 7).wait();
                             CHECK(in.get(0) == 1.0);
                           }
                         },
                         {.buffered_sends = buffered});
  }
}

TEST_CASE("the status of a process's receive names sender, tag and size") {
  run_process_messages(3, [](Runtime& runtime, Communicator&, TaggedMessages& messages) {
    if (messages.rank() != 0) {
      messages.send(one_of(runtime, messages.rank(), messages.rank()), 0, 10 * messages.rank())
          .wait();
      CHECK(counters_of(messages).payload_sent == 4 * messages.rank());
      return;
    }
    int sum = 0;
    for (int i = 0; i < 2; ++i) {
      const Tensor in = one_of(runtime, 0.0, 4);
      MessageStatus status;
      messages.recv(in, kAnySource, kAnyTag, &status).wait();
      CHECK(status.tag == 10 * status.source);
      CHECK(status.count == status.source);
      CHECK(in.get(status.count - 1) == status.source);
      CHECK(in.get(status.count) == 0.0);
      sum += status.source;
    }
    CHECK(sum == 3);
    CHECK(counters_of(messages).payload_received == 4 * sum);
  });
}

TEST_CASE("a process's receives choose in the order in which they were posted") {
  run_process_messages(2, [](Runtime& runtime, Communicator&, TaggedMessages& messages) {
    if (messages.rank() == 0) {
      messages.send(one_of(runtime, 1.0), 1, 5).wait();
      messages.send(one_of(runtime, 2.0), 1, 5).wait();
      return;
    }
    const Tensor open = one_of(runtime, 0.0);
    const Tensor named = one_of(runtime, 0.0);
    Work first = messages.recv(open, kAnySource, 5);
    Work second = messages.recv(named, 0, 5);
    second.wait();
    first.wait();
    CHECK(open.get(0) == 1.0);
    CHECK(named.get(0) == 2.0);
  });
}

TEST_CASE("messages with tags and groups go on beside each other, whichever is waited for") {
  run_process_messages(2, [](Runtime& runtime, Communicator& world, TaggedMessages& messages) {
    const Tensor token = one_of(runtime, 1.0 + messages.rank());
    const Tensor sum = one_of(runtime, 1.0);
    const Tensor in = one_of(runtime, 0.0);
    Work receive = messages.recv(in, 1 - messages.rank(), 0);
    Work send = messages.send(token, 1 - messages.rank(), 0);
    // Comes behind a message: waiting for it must take the message, too.
    Work reduce = world.all_reduce(sum, ReduceOp::sum, {.after = &receive});
    reduce.wait();
    CHECK(sum.get(0) == 2.0);
    CHECK(receive.test());
    CHECK(in.get(0) == 2.0 - messages.rank());
    send.wait();
  });
}

TEST_CASE("one of several works of a process ends first, with tags or without") {
  run_process_messages(2, [](Runtime& runtime, Communicator& world, TaggedMessages& messages) {
    if (messages.rank() == 0) {
      messages.send(one_of(runtime, 3.0), 1, 1).wait();
      world.barrier().wait();
      messages.recv(one_of(runtime, 0.0), 1, 3).wait();
      messages.send(one_of(runtime, 4.0), 1, 2).wait();
      return;
    }
    const Tensor late = one_of(runtime, 0.0);
    const Tensor early = one_of(runtime, 0.0);
    Work works[] = {messages.recv(late, 0, 2), messages.recv(early, 0, 1), world.barrier()};
    CHECK(wait_any(works) == 1U);
    CHECK(early.get(0) == 3.0);
    CHECK(wait_any(works) == 2U);
    messages.send(early, 0, 3).wait();
    CHECK(wait_any(works) == 0U);
    CHECK(late.get(0) == 4.0);
  });
}

TEST_CASE("wrong messages of a process are reported: range, length, leaks, and waits in vain") {
  using Post = std::function<Work(TaggedMessages&, const Tensor&)>;
  const Post bad[] = {
      [](TaggedMessages& m, const Tensor& t) { return m.send(t, 2, 0); },
      [](TaggedMessages& m, const Tensor& t) { return m.send(t, kAnySource, 0); },
      [](TaggedMessages& m, const Tensor& t) { return m.send(t, 0, kAnyTag); },
      [](TaggedMessages& m, const Tensor& t) { return m.recv(t, 2, 0); },
      [](TaggedMessages& m, const Tensor& t) { return m.recv(t, 0, -2); },
      [](TaggedMessages& m, const Tensor&) { return m.recv(Tensor(), 0, 0); },
  };
  for (const Post& post : bad) {
    CHECK(process_code_of(2, [&](Runtime& runtime, Communicator&, TaggedMessages& messages) {
            post(messages, one_of(runtime, 1.0)).wait();
          }) == "ARG_RANGE");
  }
  const auto truncated = [](Runtime& runtime, Communicator&, TaggedMessages& messages) {
    if (messages.rank() == 0) messages.send(one_of(runtime, 1.0, 3), 1, 0).wait();
    if (messages.rank() == 1) messages.recv(one_of(runtime, 1.0, 2), 0, 0).wait();
  };
  CHECK(process_code_of(2, truncated) == "P2P_TRUNC");
  const auto leaked = [](Runtime& runtime, Communicator& world, TaggedMessages& messages) {
    const Tensor in = one_of(runtime, 0.0);
    {
      Work receive = messages.recv(in, messages.rank(), 0);
      messages.send(in, messages.rank(), 0).wait();
    }
    world.barrier().wait();
  };
  CHECK(process_code_of(2, leaked) == "REQ_LEAK");
  const auto in_vain = [](Runtime& runtime, Communicator&, TaggedMessages& messages) {
    if (messages.rank() == 1) messages.recv(one_of(runtime, 1.0), 0, 4).wait();
  };
  CHECK(process_code_of(2, in_vain) == "TIMEOUT");
}

TEST_CASE("a process probes for messages, which stay until they are received") {
  for (const bool buffered : {false, true}) {
    run_process_messages(3,
                         [](Runtime& runtime, Communicator&, TaggedMessages& messages) {
                           if (messages.rank() > 0) {
                             const int rank = messages.rank();
                             messages.send(one_of(runtime, rank, 2 * rank), 0, 10 + rank).wait();
                             return;
                           }
                           CHECK(messages.probe(2, kAnyTag, DType::fp32) ==
                                 MessageStatus{.source = 2, .tag = 12, .count = 4});
                           CHECK(messages.probe(kAnySource, 11, DType::fp64) ==
                                 MessageStatus{.source = 1, .tag = 11, .count = 1});
                           CHECK(messages.try_probe(1, 11, DType::fp32)->count == 2);
                           CHECK_FALSE(messages.try_probe(1, 12, DType::fp32));
                           for (int i = 0; i < 2; ++i) {
                             const MessageStatus next =
                                 messages.probe(kAnySource, kAnyTag, DType::fp32);
                             const Tensor in = one_of(runtime, 0.0, next.count);
                             messages.recv(in, next.source, next.tag).wait();
                             CHECK(in.get(0) == next.source);
                           }
                           CHECK_FALSE(messages.try_probe(kAnySource, kAnyTag, DType::fp32));
                         },
                         {.buffered_sends = buffered});
  }
}

TEST_CASE("a process that probes in vain is told where, and one out of range at once") {
  CHECK(process_code_of(2, [](Runtime&, Communicator&, TaggedMessages& messages) {
          if (messages.rank() == 0) static_cast<void>(messages.probe(1, 3, DType::fp32));
        }) == "TIMEOUT");
  CHECK(process_code_of(2, [](Runtime&, Communicator&, TaggedMessages& messages) {
          if (messages.rank() == 0) static_cast<void>(messages.probe(2, 3, DType::fp32));
        }) == "ARG_RANGE");
}

}  // namespace shardsim
