#include "backends/tagged_messages.hpp"

#include <memory>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/backends/fiber_fixture.hpp"

// The promises of MPI's rules of matching, in memory (MPI 4.0, section 3.5).
namespace shardsim {
namespace {

using TaggedBody = std::function<void(Runtime&, TaggedMessages&)>;

void run_tagged(int ranks, const TaggedBody& body, FiberOptions options = {}) {
  options.cluster = test_cluster(ranks);
  FiberWorld world(options);
  world.run([&](Runtime& runtime, Communicator& everyone) {
    const std::unique_ptr<TaggedMessages> messages = everyone.tagged_messages();
    body(runtime, *messages);
  });
}

std::string code_of(int ranks, const TaggedBody& body, const FiberOptions& options = {}) {
  try {
    run_tagged(ranks, body, options);
  } catch (const CommunicationError& error) {
    return error.diagnosis().code;
  }
  return "NONE";
}

Tensor holding(Runtime& runtime, double value, std::int64_t count = 1) {
  return filled(runtime, count, DType::fp32, [&](std::int64_t) { return value; });
}

const FiberOptions kBuffered{.buffered_sends = true};

}  // namespace

TEST_CASE("messages are told apart by their tags, in whatever order they are received") {
  for (const FiberOptions& options : {FiberOptions{}, kBuffered}) {
    run_tagged(
        2,
        [](Runtime& runtime, TaggedMessages& messages) {
          if (messages.rank() == 0) {
            Work first = messages.send(holding(runtime, 1.0), 1, 7);
            Work second = messages.send(holding(runtime, 2.0), 1, 8);
            second.wait();
            first.wait();
          } else {
            const Tensor in = holding(runtime, 0.0);
            messages.recv(in, 0, 8).wait();
            CHECK(in.get(0) == 2.0);
            messages.recv(in, 0, 7).wait();
            CHECK(in.get(0) == 1.0);
          }
        },
        options);
  }
}

TEST_CASE("messages with one tag come in the order in which they were sent") {
  run_tagged(2, [](Runtime& runtime, TaggedMessages& messages) {
    std::vector<Work> works;
    std::vector<Tensor> buffers;
    for (int i = 0; i < 5; ++i) {
      buffers.push_back(holding(runtime, messages.rank() == 0 ? i : -1.0));
      works.push_back(messages.rank() == 0 ? messages.send(buffers.back(), 1, 3)
                                           : messages.recv(buffers.back(), kAnySource, kAnyTag));
    }
    for (Work& work : works) work.wait();
    for (int i = 0; i < 5; ++i) CHECK(buffers[static_cast<std::size_t>(i)].get(0) == i);
  });
}

TEST_CASE("the status names sender, tag and size; the buffer may be larger than the message") {
  for (const bool watch : {false, true}) {
    run_tagged(3,
               [](Runtime& runtime, TaggedMessages& messages) {
                 if (messages.rank() != 0) {
                   // Kept until the wait: a watched run would tell otherwise.
                   const Tensor out = holding(runtime, messages.rank(), messages.rank());
                   messages.send(out, 0, 10 * messages.rank()).wait();
                   return;
                 }
                 int sum = 0;
                 for (int i = 0; i < 2; ++i) {
                   const Tensor in = holding(runtime, 0.0, 4);
                   MessageStatus status;
                   messages.recv(in, kAnySource, kAnyTag, &status).wait();
                   CHECK(status.tag == 10 * status.source);
                   CHECK(status.count == status.source);
                   CHECK(in.get(status.count - 1) == status.source);
                   CHECK(in.get(status.count) == 0.0);
                   sum += status.source;
                 }
                 CHECK(sum == 3);
               },
               {.watch = watch});
  }
}

TEST_CASE("a receive from anyone takes the message that is there first in virtual time") {
  run_tagged(4, [](Runtime& runtime, TaggedMessages& messages) {
    if (messages.rank() == 0) {
      for (const int expected : {2, 3, 1}) {
        MessageStatus status;
        messages.recv(holding(runtime, 0.0), kAnySource, 0, &status).wait();
        CHECK(status.source == expected);
      }
      return;
    }
    // Rank 2 computes least, then 3, then 1.
    const int rounds[] = {0, 30, 10, 20};
    for (int i = 0; i < rounds[messages.rank()]; ++i) {
      runtime.compute({"wait", ComputeKind::memory_bound, DType::fp32, 0, 1 << 30}, [] {});
    }
    messages.send(holding(runtime, 1.0), 0, 0).wait();
  });
}

TEST_CASE("a receive that was posted first has the first choice, also from anyone") {
  run_tagged(2, [](Runtime& runtime, TaggedMessages& messages) {
    if (messages.rank() == 0) {
      messages.send(holding(runtime, 1.0), 1, 5).wait();
      messages.send(holding(runtime, 2.0), 1, 5).wait();
      return;
    }
    const Tensor open = holding(runtime, 0.0);
    const Tensor named = holding(runtime, 0.0);
    Work first = messages.recv(open, kAnySource, 5);
    Work second = messages.recv(named, 0, 5);
    second.wait();
    first.wait();
    CHECK(open.get(0) == 1.0);
    CHECK(named.get(0) == 2.0);
  });
}

TEST_CASE("what is sent is received: bytes, messages, and links") {
  FiberOptions options;
  options.cluster = test_cluster(3);
  FiberWorld world(options);
  world.run([&](Runtime& runtime, Communicator& everyone) {
    const std::unique_ptr<TaggedMessages> messages = everyone.tagged_messages();
    if (everyone.rank() == 0) {
      for (int i = 0; i < 2; ++i) {
        messages->recv(holding(runtime, 0.0, 8), kAnySource, 0).wait();
      }
    } else {
      messages->send(holding(runtime, 1.0, 2 * everyone.rank()), 0, 0).wait();
    }
  });
  const TrafficCounters total = world.total_traffic();
  CHECK(total.payload_sent == (2 + 4) * 4);
  CHECK(total.payload_received == total.payload_sent);
  CHECK(total.messages == 2);
  int links = 0;
  world.for_each_link([&](const LinkTraffic& link) {
    ++links;
    CHECK(link.to_rank == 0);
    CHECK(link.counts.sent == 8 * link.from_rank);
    CHECK(link.counts.received == link.counts.sent);
  });
  CHECK(links == 2);
}

TEST_CASE("messages to oneself work where somebody receives them, and hang where not") {
  const TaggedBody meets = [](Runtime& runtime, TaggedMessages& messages) {
    const Tensor in = holding(runtime, 0.0);
    Work receive = messages.recv(in, 0, 0);
    messages.send(holding(runtime, 4.0), 0, 0).wait();
    receive.wait();
    CHECK(in.get(0) == 4.0);
  };
  CHECK(code_of(1, meets) == "NONE");
  const TaggedBody alone = [](Runtime& runtime, TaggedMessages& messages) {
    messages.send(holding(runtime, 4.0), 0, 0).wait();
    messages.recv(holding(runtime, 0.0), 0, 0).wait();
  };
  CHECK(code_of(1, alone) == "DEADLOCK");
  CHECK(code_of(1, alone, kBuffered) == "NONE");
}

TEST_CASE("peers, sources and tags out of range are refused") {
  using Post = std::function<Work(TaggedMessages&, const Tensor&)>;
  const Post bad[] = {
      [](TaggedMessages& m, const Tensor& t) { return m.send(t, 2, 0); },
      [](TaggedMessages& m, const Tensor& t) { return m.send(t, kAnySource, 0); },
      [](TaggedMessages& m, const Tensor& t) { return m.send(t, 0, kAnyTag); },
      [](TaggedMessages& m, const Tensor& t) { return m.recv(t, 2, 0); },
      [](TaggedMessages& m, const Tensor& t) { return m.recv(t, 0, -2); },
  };
  for (const Post& post : bad) {
    CHECK(code_of(2, [&](Runtime& runtime, TaggedMessages& messages) {
            post(messages, holding(runtime, 1.0)).wait();
          }) == "ARG_RANGE");
  }
}

}  // namespace shardsim
