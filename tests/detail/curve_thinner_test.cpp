#include <algorithm>

#include <catch2/catch.hpp>

#include "sim/run/detail/bounded_series.hpp"

namespace shardsim::test {

namespace {

TimedUse use(std::int64_t time, std::int64_t params, std::int64_t activations) {
  TimedUse point{.time = Time::from_picoseconds(time), .bytes = {}};
  point.bytes[static_cast<std::size_t>(MemoryCategory::params)] = params;
  point.bytes[static_cast<std::size_t>(MemoryCategory::activations)] = activations;
  return point;
}

}  // namespace

TEST_CASE("of an instant the most and what is left are kept") {
  CurveThinner thinner;
  thinner.add(use(0, 10, 0));
  thinner.add(use(5, 10, 50));
  thinner.add(use(5, 10, 90));
  thinner.add(use(5, 10, 20));
  const std::vector<TimedUse> points = thinner.finish();
  REQUIRE(points.size() == 3);
  CHECK(total_of(points[1].bytes) == 100);
  CHECK(total_of(points[2].bytes) == 30);
  CHECK(points[1].time == points[2].time);
}

TEST_CASE("a long curve is bounded and keeps its peak, its first and its last point") {
  CurveThinner thinner;
  constexpr std::int64_t kPoints = 200'001;
  constexpr std::int64_t kPeakAt = 77'777;
  for (std::int64_t i = 0; i < kPoints; ++i) {
    thinner.add(use(i, 10, i == kPeakAt ? 1'000'000 : i % 1000));
  }
  CHECK(thinner.has_thinned());
  const std::vector<TimedUse> points = CurveThinner::thinned(thinner.finish(), 2000);
  CHECK(points.size() <= 2000);
  CHECK(points.size() > 900);
  CHECK(points.front().time == Time());
  CHECK(points.back().time == Time::from_picoseconds(kPoints - 1));
  const auto most = std::max_element(
      points.begin(), points.end(),
      [](const auto& a, const auto& b) { return total_of(a.bytes) < total_of(b.bytes); });
  CHECK(most->time == Time::from_picoseconds(kPeakAt));
  CHECK(total_of(most->bytes) == 1'000'010);
}

}  // namespace shardsim::test
