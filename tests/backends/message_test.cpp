#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/random.hpp"

#include "tests/backends/all_backends.hpp"

// Collectives made of messages against the simulation: the same bits and the same bytes, link by
// link; and what becomes of programs that are wrong.
namespace shardsim {
namespace {

double random_value(int rank, std::int64_t index) {
  static const RandomStream random(21, "messages");
  return random.bell(static_cast<std::uint64_t>(rank) * 1000 + static_cast<std::uint64_t>(index));
}

using RawBytes = std::vector<std::byte>;

RawBytes bytes_of(const Tensor& tensor) {
  return {tensor.data(), tensor.data() + tensor.num_bytes()};
}

// Every operation with payload, on the world and on a group of it; returns all results.
class Everything {
 public:
  explicit Everything(DType dtype) : dtype_(dtype) {}

  RawBytes run(Runtime& runtime, Communicator& world) const {
    RawBytes results;
    const auto keep = [&](const Tensor& tensor) {
      const RawBytes bytes = bytes_of(tensor);
      results.insert(results.end(), bytes.begin(), bytes.end());
    };
    const auto pair = world.split(world.rank() / 2, world.rank(), "pair");
    for (Communicator* group : {&world, pair.get()}) {
      const int size = group->size();
      const auto make = [&](std::int64_t count) {
        return filled(runtime, count, dtype_,
                      [&](std::int64_t i) { return random_value(world.rank(), i); });
      };
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max}) {
        const Tensor all = make(5 * size + 2);
        // Without padding: the simulation shares that of an all_reduce out evenly.
        group->all_reduce(all, op).wait();
        keep(all);
        const Tensor part = make(4);
        group->reduce_scatter(part, make(4 * size), op, {.padding = 5}).wait();
        keep(part);
        const ElementRange inside[] = {{1, 3}, {4, 5}};
        group->reduce_scatter(part, make(4 * size), op, {.padding = 3, .padding_at = inside})
            .wait();
        keep(part);
        const Tensor at_root = make(9);
        group->reduce(at_root, op, size - 1).wait();
        keep(at_root);
      }
      const Tensor gathered = make(3 * size);
      group->all_gather(gathered, make(3)).wait();
      keep(gathered);
      const Tensor told = make(6);
      group->broadcast(told, 1).wait();
      keep(told);
      const Tensor exchanged = make(2 * size);
      group->all_to_all(exchanged, exchanged, {}, {}).wait();
      keep(exchanged);
      const Tensor collected = make(2 * size);
      group->gather(collected, make(2), 0).wait();
      keep(collected);
      const Tensor dealt = make(2);
      group->scatter(dealt, make(2 * size), 1).wait();
      keep(dealt);
      const Tensor norm = make(1);
      group->all_reduce(norm, ReduceOp::sum, {.traffic = TrafficClass::scalar}).wait();
      keep(norm);
    }
    return results;
  }

 private:
  DType dtype_;
};

void require_equal(const TrafficCounters& a, const TrafficCounters& b) {
  REQUIRE(a.payload_sent == b.payload_sent);
  REQUIRE(a.payload_received == b.payload_received);
  REQUIRE(a.padding_sent == b.padding_sent);
  REQUIRE(a.scalar_sent == b.scalar_sent);
  REQUIRE(a.scalar_received == b.scalar_received);
  REQUIRE(a.messages == b.messages);
  REQUIRE(a.scalar_messages == b.scalar_messages);
  REQUIRE(a.calls == b.calls);
  REQUIRE(a.scalar_calls == b.scalar_calls);
}

using Links = std::map<std::tuple<std::string, int, int>, LinkCounts>;

// The traffic of every group in the simulation, by link between ranks of the world.
Links links_of(const FiberWorld& world) {
  Links links;
  world.for_each_link([&](const LinkTraffic& link) {
    LinkCounts& counts = links[{std::string(link.group), link.from_rank, link.to_rank}];
    counts.sent += link.counts.sent;
    counts.received += link.counts.received;
    counts.messages += link.counts.messages;
  });
  return links;
}

void add_links(Links& links, const GroupTraffic& traffic) {
  for (const auto& [ends, counts] : traffic.links) {
    LinkCounts& link = links[{traffic.name, traffic.members[static_cast<std::size_t>(ends.first)],
                              traffic.members[static_cast<std::size_t>(ends.second)]}];
    link.sent += counts.sent;
    link.received += counts.received;
    link.messages += counts.messages;
  }
}

void compare_with_simulation(int size, int per_node, DType dtype, Algorithm algorithm) {
  INFO(size << " ranks, " << per_node << " per node, " << name_of(dtype));
  const Everything everything(dtype);
  std::vector<RawBytes> simulated(static_cast<std::size_t>(size));
  std::vector<RawBytes> exchanged(static_cast<std::size_t>(size));
  FiberWorld world({.cluster = test_cluster(size, per_node),
                    .reduction_order = ReductionOrder::wire,
                    .all_reduce_algorithm = algorithm});
  world.run([&](Runtime& runtime, Communicator& everyone) {
    simulated[static_cast<std::size_t>(everyone.rank())] = everything.run(runtime, everyone);
  });
  std::map<std::pair<std::string, int>, TrafficCounters> counted;
  Links links;
  run_message_ranks(size,
                    [&](Runtime& runtime, Communicator& everyone) {
                      exchanged[static_cast<std::size_t>(everyone.rank())] =
                          everything.run(runtime, everyone);
                    },
                    {.gpus_per_node = per_node,
                     .all_reduce_algorithm = algorithm,
                     .inspect = [&](const MessageRank& rank) {
                       for (const GroupTraffic& traffic : rank.traffic()) {
                         counted[{traffic.name, rank.rank()}] = traffic.counters;
                         add_links(links, traffic);
                       }
                     }});
  REQUIRE(simulated == exchanged);
  for (const FiberGroup& group : world.groups()) {
    for (int member = 0; member < group.size(); ++member) {
      INFO(group.name() << ", member " << member);
      require_equal(counted.at({group.name(), group.world_rank(member)}), group.counters(member));
    }
  }
  const Links expected = links_of(world);
  REQUIRE(links.size() == expected.size());
  for (const auto& [ends, counts] : expected) {
    const LinkCounts& link = links.at(ends);
    REQUIRE(link.sent == counts.sent);
    REQUIRE(link.received == counts.received);
    REQUIRE(link.messages == counts.messages);
  }
}

// The code of the diagnosis that a run of messages ends with.
Diagnosis failure_of(int ranks, const FiberWorld::RankBody& body) {
  try {
    run_message_ranks(ranks, body);
  } catch (const CommunicationError& error) {
    return error.diagnosis();
  }
  return {.code = "NONE"};
}

}  // namespace

TEST_CASE("collectives made of messages give the simulation's bits and bytes, link by link") {
  for (const DType dtype : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
    for (const int size : {2, 4, 6, 8}) {
      compare_with_simulation(size, 2, dtype, Algorithm::ring);
    }
  }
}

TEST_CASE("the tree is chosen where the simulation chooses it, and moves the same bytes") {
  for (const Algorithm algorithm : {Algorithm::tree, Algorithm::automatic}) {
    for (const int size : {2, 4, 8, 16}) {
      compare_with_simulation(size, 2, DType::fp64, algorithm);
    }
  }
}

TEST_CASE("what follows an operation of another group starts when that has ended") {
  run_on_all(4, [](Runtime& runtime, Communicator& world) {
    const auto pair = world.split(world.rank() / 2, world.rank(), "pair");
    const auto across = world.split(world.rank() % 2, world.rank(), "across");
    const Tensor value =
        filled(runtime, 3, DType::int32, [&](std::int64_t) { return world.rank() + 1; });
    Work inside = pair->all_reduce(value, ReduceOp::sum);
    Work outside = across->all_reduce(value, ReduceOp::sum, {.after = &inside});
    outside.wait();
    inside.wait();
    REQUIRE(value.get(2) == 10);
  });
}

TEST_CASE("while one group splits, messages of others go on") {
  run_on_all(3, [](Runtime& runtime, Communicator& world) {
    const auto copy = world.split(0, world.rank(), "copy");
    const Tensor value = filled(runtime, 4, DType::fp32, [](std::int64_t) { return 1; });
    // Rank 1 needs the sum before it comes to the split; the others wait for it there.
    Work sum = copy->all_reduce(value, ReduceOp::sum);
    if (world.rank() == 1) sum.wait();
    const auto later = world.split(0, -world.rank(), "later");
    if (world.rank() != 1) sum.wait();
    REQUIRE(later->rank() == 2 - world.rank());
    REQUIRE(value.get(3) == 3);
  });
}

TEST_CASE("a message that nobody receives ends the run at the deadline, with names") {
  const Diagnosis diagnosis = failure_of(3, [](Runtime& runtime, Communicator& world) {
    const Tensor value = filled(runtime, 2, DType::fp32, [](std::int64_t) { return 1; });
    if (world.rank() == 2) world.send(value, 0, {.label = "lost"}).wait();
  });
  CHECK(diagnosis.code == "TIMEOUT");
  REQUIRE(diagnosis.sides.size() == 2);
  CHECK(diagnosis.sides[0].ranks == std::vector<int>{2});
  CHECK(diagnosis.sides[0].action == "waits in send fp32 x 2 to 0 \"lost\"");
  CHECK(diagnosis.sides[1].ranks == std::vector<int>{0});
}

TEST_CASE("a buffered send needs no receiver to end") {
  run_message_ranks(2,
                    [](Runtime& runtime, Communicator& world) {
                      const Tensor value = filled(runtime, 2, DType::fp32,
                                                  [&](std::int64_t) { return world.rank(); });
                      const Tensor other = runtime.allocate(MemoryCategory::comm, {2}, DType::fp32);
                      world.send(value, 1 - world.rank()).wait();
                      world.recv(other, 1 - world.rank()).wait();
                      REQUIRE(other.get(1) == 1 - world.rank());
                    },
                    {.buffered_sends = true});
}

TEST_CASE("a handle that is dropped is reported, and wrong arguments are refused") {
  CHECK(failure_of(2, [](Runtime& runtime, Communicator& world) {
          const Tensor value = filled(runtime, 2, DType::fp32, [](std::int64_t) { return 1; });
          { const Work dropped = world.all_reduce(value, ReduceOp::sum); }
        }).code == "REQ_LEAK");
  CHECK(failure_of(2, [](Runtime& runtime, Communicator& world) {
          const Tensor value = filled(runtime, 2, DType::fp32, [](std::int64_t) { return 1; });
          world.broadcast(value, 2).wait();
        }).code == "ARG_RANGE");
  // These counts would read or write past a buffer.
  const std::int64_t lopsided[] = {3, 1};
  const std::int64_t negative[] = {-2, 4};
  const std::int64_t too_few[] = {2};
  for (const std::span<const std::int64_t> counts :
       {std::span<const std::int64_t>(lopsided), std::span<const std::int64_t>(negative),
        std::span<const std::int64_t>(too_few)}) {
    for (const bool gathers : {true, false}) {
      const auto body = [&](Runtime& runtime, Communicator& world) {
        const Tensor all = filled(runtime, 4, DType::fp32, [](std::int64_t) { return 1; });
        const Tensor part = filled(runtime, 2, DType::fp32, [](std::int64_t) { return 1; });
        if (world.rank() == 0) return;  // Not the root: it sees its own buffers alone.
        (gathers ? world.gather({}, part, 0, {.counts = counts})
                 : world.scatter(part, {}, 0, {.counts = counts}))
            .wait();
      };
      CHECK(failure_of(2, body).code == "ARG_RANGE");
      CHECK(diagnosis_of(2, body).code == "ARG_RANGE");
    }
  }
  const auto keeps_more = [&](Runtime& runtime, Communicator& world) {
    const Tensor all = filled(runtime, 4, DType::fp32, [](std::int64_t) { return 1; });
    const std::int64_t other[] = {1, 3};
    const auto to = std::span<const std::int64_t>(world.rank() == 0 ? lopsided : other);
    const auto from = std::span<const std::int64_t>(world.rank() == 0 ? other : lopsided);
    world.all_to_all(all, all, to, from).wait();
  };
  CHECK(failure_of(2, keeps_more).code == "ARG_RANGE");
  CHECK(diagnosis_of(2, keeps_more).code == "ARG_RANGE");
  CHECK(failure_of(2, [](Runtime&, Communicator& world) {
          static_cast<void>(world.split(-2, 0, "nothing"));
        }).code == "ARG_RANGE");
}

}  // namespace shardsim
