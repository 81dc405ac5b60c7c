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
    if (link.group->name() == group) links[{link.from_rank, link.to_rank}] = link;
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
    CHECK(link.group->name() == "row");
    sum += link.counts.sent;
  });
  CHECK(sum == world.traffic().at("row").to_next);
  CHECK(links_of(world, "row").count({4, 2}) == 1);  // Ranked by key: 4, 2, 0.
}

}  // namespace shardsim
