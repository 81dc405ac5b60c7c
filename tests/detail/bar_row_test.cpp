#include <catch2/catch.hpp>

#include "sim/run/detail/bounded_series.hpp"

namespace shardsim::test {

namespace {

TimedBar bar(const char* name, std::int64_t microbatch, std::int64_t begin, std::int64_t end) {
  return {.name = name,
          .chunk = 0,
          .microbatch = microbatch,
          .begin = Time::from_picoseconds(begin),
          .end = Time::from_picoseconds(end)};
}

}  // namespace

TEST_CASE("bars that touch and do the same are one; others stay apart") {
  BarRow row;
  row.add(bar("forward", 0, 0, 10));
  row.add(bar("forward", 0, 10, 20));
  row.add(bar("forward", 1, 20, 30));
  row.add(bar("backward", 1, 30, 40));
  row.add(bar("backward", 1, 41, 50));
  REQUIRE(row.bars().size() == 4);
  CHECK(row.bars()[0].end == Time::from_picoseconds(20));
  CHECK(row.blur() == Time());
}

TEST_CASE("bars that are told late lie where they belong") {
  BarRow row;
  row.add(bar("all_gather", 0, 0, 10));
  row.add(bar("all_gather", 1, 40, 50));
  row.add(bar("reduce_scatter", -1, 20, 30));
  REQUIRE(row.bars().size() == 3);
  CHECK(row.bars()[1].name == "reduce_scatter");
  row.coarsen(Time::from_picoseconds(30));
  row.add(bar("all_gather", 2, 12, 18));  // Within the one bar that the first two are by now.
  REQUIRE(row.bars().size() == 2);
  CHECK(row.bars()[0].name == BarRow::kSeveral);
  CHECK(row.bars()[0].end == Time::from_picoseconds(30));
  CHECK(row.bars()[1].begin == Time::from_picoseconds(40));
}

TEST_CASE("drawn coarser, small gaps go, and what is small beside another kind") {
  BarRow row;
  row.add(bar("forward", 0, 0, 1000));
  row.add(bar("forward", 0, 1010, 2000));
  row.add(bar("backward", 0, 2000, 2003));
  row.add(bar("forward", 1, 2003, 2006));
  row.add(bar("backward", 1, 2500, 4000));
  row.coarsen(Time::from_picoseconds(10));
  REQUIRE(row.bars().size() == 3);
  CHECK(row.bars()[0].end == Time::from_picoseconds(2000));
  CHECK(row.bars()[1].name == BarRow::kSeveral);
  CHECK(row.bars()[1].microbatch == -1);
  CHECK(row.bars()[1].end == Time::from_picoseconds(2006));
  row.coarsen(Time::from_picoseconds(5));  // Never finer again.
  CHECK(row.blur() == Time::from_picoseconds(10));
}

TEST_CASE("a row keeps a bounded number of bars, and still begins and ends where they do") {
  BarRow row;
  constexpr std::int64_t kBars = 100'000;
  constexpr std::int64_t kLong = 1'000'000;
  for (std::int64_t i = 0; i < kBars; ++i) {
    row.add(bar(i % 2 == 0 ? "all_gather" : "reduce_scatter", i, i * kLong, i * kLong + kLong / 2));
  }
  CHECK(row.bars().size() <= BarRow::kMostBars);
  CHECK(row.bars().size() > 100);
  CHECK(row.bars().front().begin == Time());
  CHECK(row.bars().back().end == Time::from_picoseconds((kBars - 1) * kLong + kLong / 2));
}

}  // namespace shardsim::test
