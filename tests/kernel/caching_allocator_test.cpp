#include "sim/kernel/caching_allocator.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/counted_new.hpp"
#include "tests/property/check_property.hpp"
#include "tests/units.hpp"

// Rules and constants: c10/cuda/CUDACachingAllocator.cpp, as named at each test.
namespace shardsim::test {

namespace {

constexpr std::int64_t kUnlimited = CachingAllocator::kUnlimited;

BlockId must_allocate(CachingAllocator& allocator, std::int64_t bytes) {
  const std::optional<BlockId> block = allocator.allocate(bytes);
  REQUIRE(block);
  return *block;
}

// Sizes of a segment's blocks, those of free ones negative.
std::vector<std::int64_t> sizes(const CachingAllocator::SegmentView& segment) {
  std::vector<std::int64_t> sizes;
  for (const CachingAllocator::BlockView& block : segment) {
    sizes.push_back(block.in_use ? block.size : -block.size);
  }
  return sizes;
}

using Sizes = std::vector<std::int64_t>;

struct OneRequest {
  std::int64_t bytes;
  std::int64_t allocated;
  std::int64_t reserved;
};

}  // namespace

// round_size, get_allocation_size and should_split.
TEST_CASE("a first request takes the segment and the block that the rules say") {
  const OneRequest c = GENERATE(
      // Up to 1 MiB: multiples of 512 bytes, from a segment of 2 MiB.
      OneRequest{1, 512, 2 * kMiB}, OneRequest{512, 512, 2 * kMiB}, OneRequest{513, 1024, 2 * kMiB},
      OneRequest{kMiB, kMiB, 2 * kMiB},
      // Below 10 MiB: from a segment of 20 MiB.
      OneRequest{kMiB + 1, kMiB + 512, 20 * kMiB},
      OneRequest{10 * kMiB - 512, 10 * kMiB - 512, 20 * kMiB},
      // From 10 MiB on: a segment of its own, in multiples of 2 MiB, of which only a rest of more
      // than 1 MiB is split off.
      OneRequest{10 * kMiB - 511, 10 * kMiB, 10 * kMiB},
      OneRequest{10 * kMiB, 10 * kMiB, 10 * kMiB},
      OneRequest{10 * kMiB + 1, 10 * kMiB + 512, 12 * kMiB},
      OneRequest{11 * kMiB, 12 * kMiB, 12 * kMiB},
      OneRequest{11 * kMiB - 512, 11 * kMiB - 512, 12 * kMiB},
      OneRequest{(std::int64_t{5} << 30U) + 1, (std::int64_t{5} << 30U) + 512,
                 (std::int64_t{5} << 30U) + 2 * kMiB},
      // Nothing at all.
      OneRequest{0, 0, 0});
  CachingAllocator allocator(kUnlimited);
  const BlockId block = must_allocate(allocator, c.bytes);
  CHECK(allocator.allocated() == c.allocated);
  CHECK(allocator.reserved() == c.reserved);
  allocator.free(block);
  CHECK(allocator.allocated() == 0);
  CHECK(allocator.reserved() == c.reserved);  // Kept.
  CHECK(allocator.allocated_peak() == c.allocated);
  CHECK(allocator.reserved_peak() == c.reserved);
}

// should_split: 512 bytes are worth it in the small pool, which a rest always has.
TEST_CASE("small requests fill a segment, and the next one takes another") {
  CachingAllocator allocator(kUnlimited);
  for (int i = 0; i < 4096; ++i) (void)must_allocate(allocator, 512);
  CHECK(allocator.reserved() == 2 * kMiB);
  CHECK(allocator.allocated() == 2 * kMiB);
  (void)must_allocate(allocator, 1);
  CHECK(allocator.reserved() == 4 * kMiB);
}

// get_pool: by the size asked for, whatever is free in the other pool.
TEST_CASE("the two pools do not help each other out") {
  CachingAllocator allocator(kUnlimited);
  allocator.free(must_allocate(allocator, 5 * kMiB));
  (void)must_allocate(allocator, kMiB);
  CHECK(allocator.reserved() == 22 * kMiB);
  allocator.free(must_allocate(allocator, 2 * kMiB));
  CHECK(allocator.reserved() == 22 * kMiB);
}

// get_free_block: lower_bound in a set ordered by size, then address.
TEST_CASE("the smallest free block that is large enough is taken, of equals the first") {
  CachingAllocator allocator(kUnlimited);
  std::vector<BlockId> blocks;
  for (const std::int64_t size : {3, 1, 2, 1, 3, 1, 2}) {
    blocks.push_back(must_allocate(allocator, size * 100 * 512));
  }
  for (const std::size_t i : {0U, 2U, 4U, 6U}) allocator.free(blocks[i]);
  // Free: 300, 200, 300 units of 512 bytes, and 200 with all that lies beyond.
  (void)must_allocate(allocator, 150 * 512);
  (void)must_allocate(allocator, 300 * 512);
  const std::vector<CachingAllocator::SegmentView> segments = allocator.snapshot();
  REQUIRE(segments.size() == 1);
  Sizes units = sizes(segments[0]);
  for (std::int64_t& size : units) size /= 512;
  CHECK(units == Sizes{300, 100, 150, -50, 100, -300, 100, -(4096 - 1100)});
}

// free_block and try_merge_blocks.
TEST_CASE("a freed block becomes one with the free blocks beside it") {
  CachingAllocator allocator(kUnlimited);
  const BlockId a = must_allocate(allocator, 4 * kMiB);
  const BlockId b = must_allocate(allocator, 5 * kMiB);
  const BlockId c = must_allocate(allocator, 6 * kMiB);
  CHECK(sizes(allocator.snapshot().at(0)) == Sizes{4 * kMiB, 5 * kMiB, 6 * kMiB, -5 * kMiB});
  allocator.free(a);
  CHECK(sizes(allocator.snapshot().at(0)) == Sizes{-4 * kMiB, 5 * kMiB, 6 * kMiB, -5 * kMiB});
  allocator.free(c);
  CHECK(sizes(allocator.snapshot().at(0)) == Sizes{-4 * kMiB, 5 * kMiB, -11 * kMiB});
  allocator.free(b);
  CHECK(sizes(allocator.snapshot().at(0)) == Sizes{-20 * kMiB});
  // A request of 19.5 MiB, whose own segment would be of 20 MiB, finds this one.
  (void)must_allocate(allocator, 19 * kMiB + kMiB / 2);
  CHECK(allocator.reserved() == 20 * kMiB);
  CHECK(allocator.allocated() == 20 * kMiB);  // Half a MiB is not worth splitting.
}

// release_cached_blocks: blocks that are whole segments go, parts of one stay.
TEST_CASE("when the device has no room, wholly free segments are given back") {
  CachingAllocator allocator(64 * kMiB);
  const BlockId kept = must_allocate(allocator, 5 * kMiB);
  allocator.free(must_allocate(allocator, 512));
  allocator.free(must_allocate(allocator, 30 * kMiB));
  CHECK(allocator.reserved() == 52 * kMiB);
  CHECK(allocator.retries() == 0);
  (void)must_allocate(allocator, 40 * kMiB);
  CHECK(allocator.retries() == 1);
  CHECK(allocator.reserved() == 60 * kMiB);
  CHECK(allocator.reserved_peak() == 60 * kMiB);
  CHECK(allocator.snapshot().size() == 2);
  allocator.free(kept);
  CHECK(sizes(allocator.snapshot().at(0)) == Sizes{-20 * kMiB});
}

TEST_CASE("memory may be free and of no use, as it lies in pieces") {
  CachingAllocator allocator(40 * kMiB);
  std::vector<BlockId> held;
  for (int i = 0; i < 2; ++i) {
    const BlockId front = must_allocate(allocator, 8 * kMiB);
    held.push_back(must_allocate(allocator, 4 * kMiB));
    (void)must_allocate(allocator, 8 * kMiB);
    allocator.free(front);
  }
  // 16 of 40 MiB are free.
  CHECK_FALSE(allocator.allocate(9 * kMiB));
  CHECK(allocator.allocated() == 24 * kMiB);
  CHECK(allocator.reserved() == 40 * kMiB);
  CHECK(allocator.retries() == 1);
  // Nothing has changed by it, and what is asked for later is served.
  allocator.free(held[0]);
  CHECK(allocator.allocate(9 * kMiB));
}

TEST_CASE("no size is too large to be refused") {
  CachingAllocator allocator(80 * 1024 * kMiB);
  for (const std::int64_t bytes : {80 * 1024 * kMiB + 1, kUnlimited, kUnlimited + 1,
                                   std::numeric_limits<std::int64_t>::max()}) {
    CHECK_FALSE(allocator.allocate(bytes));
  }
  CHECK(allocator.reserved_peak() == 0);
  CachingAllocator unlimited(kUnlimited);
  CHECK(unlimited.allocate(kUnlimited - 2 * kMiB));
  CHECK_FALSE(unlimited.allocate(kUnlimited));
}

namespace {

constexpr std::int64_t kCapacity = 300 * kMiB;

std::int64_t rounded(std::int64_t bytes, std::int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// The memory that a request takes, found by a look at every block there is.
struct Expected {
  bool fits = true;
  std::int64_t block = 0;
  std::int64_t reserved = 0;
};

bool is_small_segment(const CachingAllocator::SegmentView& segment) {
  std::int64_t size = 0;
  for (const auto& block : segment) size += block.size;
  return size == 2 * kMiB;
}

std::int64_t kept_of(std::int64_t block, std::int64_t size) {
  const std::int64_t rest = block - size;
  return (size <= kMiB ? rest >= 512 : rest > kMiB) ? size : block;
}

Expected expected_of(const CachingAllocator& allocator, std::int64_t bytes) {
  const std::int64_t size = rounded(bytes, 512);
  Expected expected{true, 0, allocator.reserved()};
  std::int64_t best = 0;
  std::int64_t releasable = 0;
  for (const CachingAllocator::SegmentView& segment : allocator.snapshot()) {
    if (segment.size() == 1 && !segment[0].in_use) releasable += segment[0].size;
    if (is_small_segment(segment) != (size <= kMiB)) continue;
    for (const auto& block : segment) {
      if (!block.in_use && block.size >= size && (best == 0 || block.size < best))
        best = block.size;
    }
  }
  if (best == 0) {
    best = size <= kMiB ? 2 * kMiB : size < 10 * kMiB ? 20 * kMiB : rounded(size, 2 * kMiB);
    if (expected.reserved + best > kCapacity) expected.reserved -= releasable;
    expected.fits = expected.reserved + best <= kCapacity;
    if (expected.fits) expected.reserved += best;
  }
  expected.block = kept_of(best, size);
  return expected;
}

// Blocks lie side by side from the first to the last byte of their segment, no two free ones are
// neighbours, and the sums are those that the allocator tells.
void check_consistent(const CachingAllocator& allocator) {
  std::int64_t allocated = 0;
  std::int64_t reserved = 0;
  for (const CachingAllocator::SegmentView& segment : allocator.snapshot()) {
    std::int64_t end = 0;
    bool was_free = false;
    for (const auto& block : segment) {
      RC_ASSERT(block.offset == end);
      RC_ASSERT(block.size > 0);
      RC_ASSERT(!(was_free && !block.in_use));
      end += block.size;
      was_free = !block.in_use;
      if (block.in_use) allocated += block.size;
    }
    reserved += end;
  }
  RC_ASSERT(allocator.allocated() == allocated);
  RC_ASSERT(allocator.reserved() == reserved);
  RC_ASSERT(reserved >= allocated);
  RC_ASSERT(reserved <= kCapacity);
  RC_ASSERT(allocator.allocated_peak() >= allocated);
  RC_ASSERT(allocator.reserved_peak() >= reserved);
  RC_ASSERT(allocator.reserved_peak() >= allocator.allocated_peak());
}

// A size of any kind, with the bounds between kinds.
std::int64_t draw_size() {
  const std::int64_t around =
      *rc::gen::element<std::int64_t>(512, 4096, kMiB, 2 * kMiB, 10 * kMiB, 12 * kMiB, 40 * kMiB);
  return std::max<std::int64_t>(1, *rc::gen::inRange<std::int64_t>(around / 2, around + 2)) +
         *rc::gen::element<std::int64_t>(0, around / 2);
}

void allocates_as_expected() {
  CachingAllocator allocator(kCapacity);
  std::vector<BlockId> held;
  const int calls = *rc::gen::inRange(1, 120);
  for (int call = 0; call < calls; ++call) {
    if (!held.empty() && *rc::gen::inRange(0, 5) < 2) {
      const auto which = *rc::gen::inRange<std::size_t>(0, held.size());
      allocator.free(held[which]);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
    } else {
      const std::int64_t bytes = draw_size();
      const Expected expected = expected_of(allocator, bytes);
      const std::int64_t before = allocator.allocated();
      const std::optional<BlockId> block = allocator.allocate(bytes);
      RC_ASSERT(block.has_value() == expected.fits);
      RC_ASSERT(allocator.reserved() == expected.reserved);
      RC_ASSERT(allocator.allocated() == before + (expected.fits ? expected.block : 0));
      if (block) held.push_back(*block);
    }
    check_consistent(allocator);
  }
  const std::int64_t reserved = allocator.reserved();
  for (const BlockId block : held) allocator.free(block);
  check_consistent(allocator);
  RC_ASSERT(allocator.allocated() == 0);
  RC_ASSERT(allocator.reserved() == reserved);
  for (const CachingAllocator::SegmentView& segment : allocator.snapshot()) {
    RC_ASSERT(segment.size() == 1U);  // All of it in one piece again.
  }
}

}  // namespace

TEST_CASE("any sequence of requests takes what a search of all blocks finds") {
  check_property(150, allocates_as_expected);
}

TEST_CASE("requests that have been made before allocate nothing in the simulator") {
  CachingAllocator allocator(kUnlimited);
  std::vector<BlockId> held;
  held.reserve(200);
  std::int64_t before = 0;
  // It takes a few steps until the segments are there that all of them together need.
  constexpr int kSteps = 6;
  for (int step = 1; step <= kSteps; ++step) {
    if (step == kSteps) before = num_allocations();
    for (int i = 1; i <= 200; ++i) held.push_back(*allocator.allocate(i * i * 1000));
    for (std::size_t i = 0; i < held.size(); i += 2) allocator.free(held[i]);
    for (std::size_t i = 1; i < held.size(); i += 2) allocator.free(held[i]);
    held.clear();
  }
  CHECK(num_allocations() == before);
}

}  // namespace shardsim::test
