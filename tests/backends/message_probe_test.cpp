#include <array>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "backends/tagged_messages.hpp"

#include "tests/backends/fiber_fixture.hpp"

// Probes of messages, and messages among the members of a group.
namespace shardsim {
namespace {

Tensor number_of(Runtime& runtime, double value, std::int64_t count = 1) {
  return filled(runtime, count, DType::fp32, [&](std::int64_t) { return value; });
}

void compute_for(Runtime& runtime, std::int64_t flops) {
  runtime.compute({"work", ComputeKind::matmul, DType::fp32, flops, 0}, [] {});
}

// Rank 0 gets one message of each other rank: it probes for any, and receives the one it found.
std::vector<int> probed_order(Runtime& runtime, Communicator& world) {
  const auto messages = world.tagged_messages();
  std::vector<int> order;
  if (world.rank() > 0) {
    messages->send(number_of(runtime, world.rank(), world.rank()), 0, 10 + world.rank()).wait();
    return order;
  }
  for (int i = 1; i < world.size(); ++i) {
    const MessageStatus found = messages->probe(kAnySource, kAnyTag, DType::fp32);
    const Tensor in = number_of(runtime, 0.0, found.count);
    MessageStatus taken;
    messages->recv(in, found.source, found.tag, &taken).wait();
    CHECK(taken == found);
    CHECK(found.tag == 10 + found.source);
    CHECK(found.count == found.source);
    CHECK(in.get(0) == found.source);
    order.push_back(found.source);
  }
  return order;
}

}  // namespace

TEST_CASE("a probe tells which message there is, and the next receive of it takes it") {
  for (const bool buffered : {false, true}) {
    FiberOptions options;
    options.buffered_sends = buffered;
    run_ranks(
        5,
        [&](Runtime& runtime, Communicator& world) {
          const std::vector<int> order = probed_order(runtime, world);
          if (world.rank() > 0) return;
          CHECK(std::set<int>(order.begin(), order.end()) == std::set<int>{1, 2, 3, 4});
        },
        options);
  }
}

TEST_CASE("a probe waits for the sender it names, and for the tag, past other messages") {
  run_ranks(3, [](Runtime& runtime, Communicator& world) {
    const auto messages = world.tagged_messages();
    if (world.rank() > 0) {
      std::array<Work, 2> sends = {
          messages->send(number_of(runtime, world.rank()), 0, 1),
          messages->send(number_of(runtime, world.rank(), world.rank() + 1), 0, 2)};
      for (Work& send : sends) send.wait();
      return;
    }
    CHECK(messages->probe(2, 2, DType::fp32) == MessageStatus{.source = 2, .tag = 2, .count = 3});
    CHECK(messages->probe(1, kAnyTag, DType::fp32) ==
          MessageStatus{.source = 1, .tag = 1, .count = 1});
    const Tensor in = number_of(runtime, 0.0, 3);
    for (const int source : {1, 2}) {
      for (const int tag : {1, 2}) messages->recv(in, source, tag).wait();
    }
  });
}

TEST_CASE("a message that an earlier receive waits for is none for a probe") {
  run_ranks(2, [](Runtime& runtime, Communicator& world) {
    const auto messages = world.tagged_messages();
    if (world.rank() == 1) {
      Work first = messages->send(number_of(runtime, 1.0, 1), 0, 1);
      Work second = messages->send(number_of(runtime, 2.0, 2), 0, 1);
      first.wait();
      second.wait();
      return;
    }
    const Tensor in = number_of(runtime, 0.0);
    Work receive = messages->recv(in, kAnySource, 1);
    CHECK(messages->probe(1, 1, DType::fp32).count == 2);
    receive.wait();
    CHECK(in.get(0) == 1.0);
    messages->recv(number_of(runtime, 0.0, 2), 1, 1).wait();
  });
}

TEST_CASE("a look finds what has come by its time, and takes a microsecond where nothing has") {
  for (const bool buffered : {false, true}) {
    FiberOptions options;
    options.buffered_sends = buffered;
    options.cluster = test_cluster(2);
    FiberWorld world(options);
    world.run([&](Runtime& runtime, Communicator& everyone) {
      const auto messages = everyone.tagged_messages();
      const RankState& self = world.engine().rank(everyone.rank());
      if (everyone.rank() == 1) {
        compute_for(runtime, 1'000'000'000);
        messages->send(number_of(runtime, 5.0, 3), 0, 4).wait();
        return;
      }
      const Time begin = self.now();
      CHECK_FALSE(messages->try_probe(kAnySource, kAnyTag, DType::fp32));
      CHECK_FALSE(messages->try_probe(1, 4, DType::fp32));
      CHECK(self.now() - begin == Time::from_seconds(2e-6));
      compute_for(runtime, 2'000'000'000);
      const Time later = self.now();
      CHECK_FALSE(messages->try_probe(1, 3, DType::fp32));
      const Time after = self.now();
      CHECK(after - later == Time::from_seconds(1e-6));
      const MessageStatus found{.source = 1, .tag = 4, .count = 3};
      CHECK(messages->try_probe(kAnySource, kAnyTag, DType::fp32) == found);
      CHECK(messages->try_probe(1, 4, DType::fp32) == found);  // It is still there.
      CHECK(self.now() == after);
      messages->recv(number_of(runtime, 0.0, 3), 1, 4).wait();
      CHECK_FALSE(messages->try_probe(kAnySource, kAnyTag, DType::fp32));
    });
  }
}

TEST_CASE("what looks find does not depend on the order in which ranks are run") {
  const auto looks_with = [](std::uint64_t seed) {
    FiberOptions options;
    options.cluster = test_cluster(4);
    options.interleaving_seed = seed;
    options.draw_launches = seed != 0;
    FiberWorld world(options);
    std::vector<std::int64_t> seen;
    world.run([&](Runtime& runtime, Communicator& everyone) {
      const auto messages = everyone.tagged_messages();
      compute_for(runtime, 10'000'000 * (7 * everyone.rank() % 4));
      if (everyone.rank() > 0) {
        messages->send(number_of(runtime, 1.0), 0, everyone.rank()).wait();
        return;
      }
      std::int64_t looks = 0;
      while (seen.size() < 6) {
        ++looks;
        const std::optional<MessageStatus> found =
            messages->try_probe(kAnySource, kAnyTag, DType::fp32);
        if (!found) continue;
        messages->recv(number_of(runtime, 0.0), found->source, found->tag).wait();
        seen.push_back(found->source);
        seen.push_back(looks);
      }
    });
    CHECK(seen.back() > 3);
    seen.push_back(static_cast<std::int64_t>(world.engine().trace_hash() % 1000003));
    return seen;
  };
  const auto usual = looks_with(0);
  for (std::uint64_t seed = 1; seed < 20; ++seed) CHECK(looks_with(seed) == usual);
}

TEST_CASE("a probe that nothing answers is a stall with its name, and so are looks for ever") {
  for (const bool looks : {false, true}) {
    const Diagnosis stall = diagnosis_of(2, [&](Runtime&, Communicator& world) {
      const auto messages = world.tagged_messages();
      if (world.rank() == 1) return;
      while (looks && !messages->try_probe(1, 5, DType::fp32)) {
      }
      static_cast<void>(messages->probe(1, 5, DType::fp32));
    });
    INFO(stall.to_text());
    CHECK(stall.code == "P2P_UNMATCHED");
    CHECK(stall.to_text().find("rank 0: called probe from 1 with tag 5") != std::string::npos);
  }
}

// --- Messages of groups -------------------------------------------------------------------------

TEST_CASE("messages of a group have its members' ranks, and meet those of no other group") {
  for (const bool buffered : {false, true}) {
    FiberOptions options;
    options.buffered_sends = buffered;
    run_ranks(
        6,
        [](Runtime& runtime, Communicator& world) {
          // Ranks 5, 3, 1 and 4, 2, 0.
          const auto group = world.split(world.rank() % 2, -world.rank(), "half");
          const auto everyone = world.tagged_messages();
          const auto messages = group->tagged_messages();
          CHECK(messages->rank() == group->rank());
          CHECK(messages->size() == 3);
          const int next = (group->rank() + 1) % 3;
          const int previous = (group->rank() + 2) % 3;
          const Tensor of_world = number_of(runtime, 0.0);
          const Tensor of_group = number_of(runtime, 0.0);
          MessageStatus status;
          // Both have the same tag.
          Work in = everyone->recv(of_world, kAnySource, kAnyTag);
          std::array<Work, 2> sends = {
              messages->send(number_of(runtime, 100.0 + world.rank()), next, 3),
              everyone->send(number_of(runtime, world.rank()), (world.rank() + 1) % 6, 3)};
          CHECK(messages->probe(kAnySource, kAnyTag, DType::fp32).source == previous);
          messages->recv(of_group, kAnySource, kAnyTag, &status).wait();
          in.wait();
          for (Work& send : sends) send.wait();
          CHECK(status == MessageStatus{.source = previous, .tag = 3, .count = 1});
          CHECK(of_group.get(0) == 100.0 + (world.rank() + 2) % 6);
          CHECK(of_world.get(0) == (world.rank() + 5) % 6);
        },
        options);
  }
}

TEST_CASE("a report on a group's messages names the group, and ranks of the world") {
  const Diagnosis truncated = diagnosis_of(4, [](Runtime& runtime, Communicator& world) {
    const auto group = world.split(world.rank() / 2, world.rank(), "pair");
    const auto messages = group->tagged_messages();
    if (world.rank() == 3) messages->send(number_of(runtime, 1.0, 5), 0, 1).wait();
    if (world.rank() == 2) messages->recv(number_of(runtime, 0.0, 4), 1, 1).wait();
  });
  CHECK(truncated.code == "P2P_TRUNC");
  CHECK(truncated.group == "pair");
  CHECK(truncated.members == std::vector<int>{2, 3});
  const Diagnosis range = diagnosis_of(4, [](Runtime& runtime, Communicator& world) {
    const auto group = world.split(world.rank() / 2, world.rank(), "pair");
    const auto messages = group->tagged_messages();
    if (world.rank() == 2) messages->send(number_of(runtime, 1.0), 2, 1).wait();
  });
  CHECK(range.code == "ARG_RANGE");
  CHECK(range.to_text().find("ranks are 0 to 1") != std::string::npos);
  // A message of the world does not answer a receive of the group.
  CHECK(diagnosis_of(2, [](Runtime& runtime, Communicator& world) {
          const auto group = world.split(0, world.rank(), "pair");
          const auto messages = group->tagged_messages();
          const auto everyone = world.tagged_messages();
          if (world.rank() == 0) everyone->send(number_of(runtime, 1.0), 1, 1).wait();
          if (world.rank() == 1) messages->recv(number_of(runtime, 0.0), 0, 1).wait();
        }).code != "NONE");
}

}  // namespace shardsim
