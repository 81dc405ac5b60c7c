#include "sim/kernel/memory_replay.hpp"

#include <cstddef>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/caching_allocator.hpp"
#include "sim/kernel/error.hpp"
#include "sim/kernel/memory_ledger.hpp"
#include "sim/kernel/rank_state.hpp"

#include "tests/counted_new.hpp"
#include "tests/units.hpp"

namespace shardsim::test {

namespace {

constexpr MemoryCategory kParams = MemoryCategory::params;
constexpr MemoryCategory kActivations = MemoryCategory::activations;

// Enters allocations as tensors do. An allocation is known by the address of its mark.
class Storages {
 public:
  explicit Storages(RankState& rank) : ledger_(rank.ledger()) {}
  AllocationMark* allocate(MemoryCategory category, std::int64_t bytes) {
    AllocationMark* const mark = &marks_.at(next_++);
    const AllocationOwner owner(*mark);
    ledger_.allocate(category, bytes);
    return mark;
  }
  void release(AllocationMark* mark, MemoryCategory category, std::int64_t bytes) {
    const AllocationOwner owner(*mark);
    ledger_.release(category, bytes);
  }

 private:
  MemoryLedger& ledger_;
  std::vector<AllocationMark> marks_ = std::vector<AllocationMark>(10'000);
  std::size_t next_ = 0;
};

// Allocates as a rank's steps might.
void run_steps(RankState& rank, int steps) {
  Storages storages(rank);
  AllocationMark* weights = storages.allocate(kParams, 30 * kMiB);
  for (int step = 0; step < steps; ++step) {
    std::vector<AllocationMark*> kept;
    for (int layer = 0; layer < 8; ++layer) {
      kept.push_back(storages.allocate(kActivations, 3 * kMiB));
      AllocationMark* temporary = storages.allocate(kActivations, 7 * kMiB);
      storages.release(temporary, kActivations, 7 * kMiB);
    }
    for (AllocationMark* storage : kept) storages.release(storage, kActivations, 3 * kMiB);
  }
  storages.release(weights, kParams, 30 * kMiB);
}

}  // namespace

TEST_CASE("a replay knows which of several equal allocations is released") {
  RankState rank(0);
  MemoryReplay replay(rank);
  Storages storages(rank);
  AllocationMark* a = storages.allocate(kActivations, 4 * kMiB);
  AllocationMark* b = storages.allocate(kActivations, 4 * kMiB);
  AllocationMark* c = storages.allocate(kActivations, 4 * kMiB);
  storages.release(c, kActivations, 4 * kMiB);
  storages.release(a, kActivations, 4 * kMiB);
  // The allocation that is left is in the middle.
  const std::vector<CachingAllocator::SegmentView> segments = replay.allocator().snapshot();
  REQUIRE(segments.size() == 1);
  REQUIRE(segments[0].size() == 3);
  CHECK(segments[0][1].in_use);
  CHECK(segments[0][1].offset == 4 * kMiB);
  storages.release(b, kActivations, 4 * kMiB);
  CHECK(replay.allocator().allocated() == 0);
  CHECK(replay.allocator().allocated_peak() == 12 * kMiB);
  CHECK(replay.allocator().reserved_peak() == 20 * kMiB);
}

TEST_CASE("what is older than the replay is none of its business") {
  RankState rank(0);
  Storages storages(rank);
  AllocationMark* before = storages.allocate(kParams, kMiB);
  const MemoryReplay replay(rank);
  AllocationMark* after = storages.allocate(kParams, 512);
  CHECK(replay.allocator().allocated() == 512);
  storages.release(before, kParams, kMiB);
  CHECK(replay.allocator().allocated() == 512);
  storages.release(after, kParams, 512);
  CHECK(replay.allocator().allocated() == 0);
  // No bytes take no block, and none is missed.
  AllocationMark* empty = storages.allocate(kParams, 0);
  storages.release(empty, kParams, 0);
  CHECK(replay.allocator().allocated_peak() == 512);
}

TEST_CASE("the allocation that made the peak is the one that first reached it") {
  RankState rank(0);
  const MemoryReplay replay(rank);
  Storages storages(rank);
  (void)storages.allocate(kParams, 5 * kMiB);
  rank.compute("first", Time::from_picoseconds(7));
  AllocationMark* first = storages.allocate(kActivations, kMiB / 2);
  storages.release(first, kActivations, kMiB / 2);
  rank.compute("second", Time::from_picoseconds(7));
  (void)storages.allocate(MemoryCategory::grads, kMiB / 2);
  CHECK(replay.use().peak.category == kActivations);
  CHECK(replay.use().peak.bytes == kMiB / 2);
  CHECK(replay.use().peak.time == Time::from_picoseconds(7));
  (void)storages.allocate(MemoryCategory::comm, 1);
  CHECK(replay.use().peak.category == MemoryCategory::comm);
  CHECK(replay.use().peak.bytes == 1);
  CHECK(replay.use().peak.time == Time::from_picoseconds(14));
}

TEST_CASE("listening changes neither ledger nor hash, and a trace stays whole") {
  RankState plain(0);
  plain.start_trace();
  run_steps(plain, 2);
  RankState rank(0);
  rank.start_trace();
  {
    const MemoryReplay replay(rank);
    run_steps(rank, 2);
  }
  CHECK(rank.hash().value() == plain.hash().value());
  CHECK(rank.ledger().peak() == plain.ledger().peak());
  CHECK(rank.ledger().at_peak() == plain.ledger().at_peak());
  CHECK(rank.ledger().total_now() == 0);
  const std::vector<MemoryPoint>& expected = plain.trace()->memory;
  const std::vector<MemoryPoint>& points = rank.trace()->memory;
  REQUIRE(points.size() == expected.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    CHECK(points[i].category == expected[i].category);
    CHECK(points[i].bytes == expected[i].bytes);
    CHECK(points[i].time == expected[i].time);
  }
  // Nobody is told any more.
  Storages(rank).allocate(kParams, 1);
  CHECK(points.size() == expected.size());
}

TEST_CASE("what is reserved does not grow with steps") {
  for (const int steps : {1, 2, 50}) {
    RankState rank(0);
    const MemoryReplay replay(rank);
    run_steps(rank, steps);
    CHECK(replay.allocator().allocated() == 0);
    // By hand: 30 MiB of the weights' own. Five activations and, up to the fourth, a temporary fit
    // into 20 MiB; the fifth temporary needs another 20. The sixth activation fills up the first
    // segment but for 2 MiB, the last two and all later temporaries go to the second.
    CHECK(replay.allocator().reserved_peak() == 70 * kMiB);
    CHECK(replay.allocator().allocated_peak() == (30 + 8 * 3 + 7) * kMiB);
  }
}

TEST_CASE("a step like the last one allocates nothing in the simulator") {
  RankState rank(0);
  const MemoryReplay replay(rank);
  Storages storages(rank);
  std::vector<AllocationMark*> kept(40);
  std::int64_t before = 0;
  constexpr int kSteps = 5;
  for (int step = 1; step <= kSteps; ++step) {
    if (step == kSteps) before = num_allocations();
    for (AllocationMark*& storage : kept) storage = storages.allocate(kActivations, 3 * kMiB);
    for (AllocationMark* storage : kept) storages.release(storage, kActivations, 3 * kMiB);
  }
  CHECK(num_allocations() == before);
}

TEST_CASE("out of memory is noted, and the replay goes on") {
  RankState rank(0);
  MemoryReplay replay(rank);
  Storages storages(rank);
  replay.set_device({.capacity = 40 * kMiB, .outside = 8 * kMiB});
  (void)storages.allocate(kParams, 30 * kMiB);
  CHECK_FALSE(replay.use().out_of_memory);
  CHECK(replay.use().device_peak == 38 * kMiB);
  (void)storages.allocate(kParams, 2 * kMiB);
  CHECK(replay.use().out_of_memory);
  CHECK(replay.allocator().reserved() == 50 * kMiB);
  CHECK(replay.use().device_peak == 58 * kMiB);
  CHECK(replay.allocator().retries() == 1);
  const std::int64_t all = std::numeric_limits<std::int64_t>::max() - 32 * kMiB;
  CHECK_THROWS_AS(storages.allocate(kParams, all), LimitError);
}

TEST_CASE("a device without room for what is outside the allocator sets no limit") {
  RankState rank(0);
  MemoryReplay replay(rank);
  Storages storages(rank);
  replay.set_device({.capacity = 2 * kMiB, .outside = 2 * kMiB});
  (void)storages.allocate(kParams, 40 * kMiB);
  CHECK_FALSE(replay.use().out_of_memory);
  CHECK(replay.use().device_peak == 42 * kMiB);
}

TEST_CASE("blocks that libraries keep take their place in the allocator") {
  RankState rank(0);
  MemoryReplay replay(rank);
  Storages storages(rank);
  replay.set_device({.capacity = 64 * kMiB, .outside = 8 * kMiB, .kept = {12 * kMiB, 4 * kMiB}});
  CHECK(replay.use().allocated_peak == 16 * kMiB);
  CHECK(replay.use().device_peak == (8 + 12 + 20) * kMiB);
  // The rest of the second block's segment holds 16 MiB more.
  AllocationMark* first = storages.allocate(kParams, 9 * kMiB);
  CHECK(replay.use().allocated_peak == 25 * kMiB);
  CHECK(replay.use().device_peak == 40 * kMiB);
  storages.release(first, kParams, 9 * kMiB);
  // 24 MiB are left of the device, and what is kept stays when memory is short.
  (void)storages.allocate(kParams, 24 * kMiB);
  CHECK_FALSE(replay.use().out_of_memory);
  (void)storages.allocate(kParams, 18 * kMiB);
  CHECK(replay.use().out_of_memory);
  CHECK(replay.allocator().allocated() == (16 + 24 + 18) * kMiB);
}

TEST_CASE("a device without room for what libraries keep sets no limit") {
  RankState rank(0);
  MemoryReplay replay(rank);
  Storages storages(rank);
  replay.set_device({.capacity = 22 * kMiB, .outside = 2 * kMiB, .kept = {20 * kMiB}});
  (void)storages.allocate(kParams, 40 * kMiB);
  CHECK_FALSE(replay.use().out_of_memory);
}

}  // namespace shardsim::test
