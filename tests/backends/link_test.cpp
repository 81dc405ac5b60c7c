#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/backends/fiber_fixture.hpp"

// Conservation link by link: what a member says it sent to the next one is what that one says it
// received. Sums over a group would not see two errors that cancel.
namespace shardsim {
namespace {

std::map<std::pair<int, int>, LinkTraffic> links_of(const FiberWorld& world,
                                                    const std::string& group) {
  std::map<std::pair<int, int>, LinkTraffic> links;
  world.for_each_link([&](const LinkTraffic& link) {
    if (link.group == group) links[{link.from_rank, link.to_rank}] = link;
  });
  return links;
}

}  // namespace

TEST_CASE("P3: each link of an uneven all_gather carries all chunks but the next member's own") {
  FiberWorld world({.cluster = test_cluster(8), .has_data = false});
  world.run([](Runtime& runtime, Communicator& everyone) {
    const std::vector<std::int64_t> counts = {1, 2, 3, 4, 5, 6, 7, 8};
    const Tensor full = runtime.allocate(MemoryCategory::comm, {36}, DType::int8);
    const std::int64_t own = everyone.rank() + 1;
    everyone.all_gather(full, full.view(0, {own}), {.counts = counts}).wait();
  });
  const auto links = links_of(world, "world");
  REQUIRE(links.size() == 8);
  for (int rank = 0; rank < 8; ++rank) {
    const int next = (rank + 1) % 8;
    const LinkCounts& counts = links.at({rank, next}).counts;
    CHECK(counts.sent == 36 - (next + 1));
    CHECK(counts.received == counts.sent);
  }
}

// 12 elements, of which 3 fill up: the chunks of ranks 0 to 3 hold 3, 1, 3 and 2 that do not.
TEST_CASE("P3: padding within a buffer is counted apart, chunk by chunk and link by link") {
  constexpr ElementRange kPadding[] = {{4, 5}, {5, 6}, {11, 12}};
  using Call = std::function<Work(Communicator&, const Tensor& full, const CallOptions&)>;
  // `expected`: what each rank sends to the next.
  const auto check = [&](const Call& call, const std::vector<std::int64_t>& expected) {
    FiberWorld world({.cluster = test_cluster(4), .has_data = false});
    world.run([&](Runtime& runtime, Communicator& everyone) {
      const Tensor full = runtime.allocate(MemoryCategory::comm, {12}, DType::int8);
      call(everyone, full, {.padding = 3, .padding_at = kPadding}).wait();
    });
    const LinkTable links = world.groups().front().links();
    for (int rank = 0; rank < 4; ++rank) {
      const LinkCounts& link = links.at({rank, (rank + 1) % 4});
      CHECK(link.sent == expected.at(static_cast<std::size_t>(rank)));
      CHECK(link.received == link.sent);
    }
    CHECK(world.sent_by_rank() == expected);
    const TrafficCounters& counters = world.traffic().at("world");
    CHECK(counters.payload_sent == 3 * 9);
    CHECK(counters.payload_received == 3 * 9);
    CHECK(counters.padding_sent == 3 * 3);
  };
  const auto part_of = [](const Tensor& full, const Communicator& world) {
    return full.view(3 * world.rank(), {3});
  };
  check(
      [&](Communicator& world, const Tensor& full, const CallOptions& options) {
        return world.reduce_scatter(part_of(full, world), full, ReduceOp::sum, options);
      },
      {9 - 3, 9 - 1, 9 - 3, 9 - 2});  // All but its own.
  check(
      [&](Communicator& world, const Tensor& full, const CallOptions& options) {
        return world.all_gather(full, part_of(full, world), options);
      },
      {9 - 1, 9 - 3, 9 - 2, 9 - 3});  // All but the next one's.

  // Directly to the root: each its own.
  FiberWorld world({.cluster = test_cluster(4), .has_data = false});
  world.run([&](Runtime& runtime, Communicator& everyone) {
    const Tensor full = runtime.allocate(MemoryCategory::comm, {12}, DType::int8);
    everyone.gather(full, part_of(full, everyone), 3, {.padding = 3, .padding_at = kPadding})
        .wait();
  });
  const std::vector<std::int64_t> payload = {3, 1, 3};
  const LinkTable links = world.groups().front().links();
  for (int rank = 0; rank < 3; ++rank) {
    const LinkCounts& link = links.at({rank, 3});
    CHECK(link.sent == payload.at(static_cast<std::size_t>(rank)));
    CHECK(link.received == link.sent);
  }
  CHECK(world.traffic().at("world").padding_sent == 2);
}

TEST_CASE("P3: links agree for every operation along a ring, over communicators come and gone") {
  FiberWorld world(
      {.cluster = test_cluster(6, 3), .has_data = false, .all_reduce_algorithm = Algorithm::ring});
  world.run([](Runtime& runtime, Communicator& everyone) {
    const Tensor full = runtime.allocate(MemoryCategory::comm, {21}, DType::bf16);
    for (int round = 0; round < 2; ++round) {
      const auto row = everyone.split(everyone.rank() % 2, -everyone.rank(), "row");
      row->all_reduce(full.view(0, {20}), ReduceOp::sum).wait();
      row->reduce_scatter(full.view(0, {7}), full, ReduceOp::sum, {.padding = 5}).wait();
      row->broadcast(full, 1).wait();
      row->reduce(full, ReduceOp::max, 2).wait();
      row->all_reduce(full, ReduceOp::max, {.traffic = TrafficClass::scalar}).wait();
    }
  });
  std::int64_t sum = 0;
  world.for_each_link([&](const LinkTraffic& link) {
    CHECK(link.counts.sent == link.counts.received);
    CHECK(link.counts.sent > 0);
    CHECK(link.group == "row");
    sum += link.counts.sent;
  });
  CHECK(sum == world.traffic().at("row").to_next);
  CHECK(links_of(world, "row").count({4, 2}) == 1);  // Ranked by key: 4, 2, 0.
}

}  // namespace shardsim
