#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/hardware/faults/faulty_network.hpp"

#include "tests/property/check_property.hpp"
#include "tests/units.hpp"

// Effects of outages on one operation, by hand and against a clock that counts every picosecond.
namespace shardsim::test {
namespace {

FlappingLink flapping(std::int64_t down, std::int64_t period, std::int64_t phase = 0) {
  return {.down = ps(down), .period = ps(period), .phase = ps(phase)};
}

std::int64_t end_of(const std::vector<FlappingLink>& links, std::int64_t start,
                    std::int64_t duration) {
  return end_with_outages(links, ps(start), ps(duration)).picoseconds();
}

// The definition: a picosecond counts if no link is down in it.
std::int64_t counted_end(const std::vector<FlappingLink>& links, std::int64_t start,
                         std::int64_t duration) {
  std::int64_t now = start;
  while (duration > 0) {
    bool down = false;
    for (const FlappingLink& link : links) {
      const std::int64_t since = now - link.phase.picoseconds();
      down |= since >= 0 && since % link.period.picoseconds() < link.down.picoseconds();
    }
    if (!down) --duration;
    ++now;
  }
  return now;
}

}  // namespace

TEST_CASE("an operation that meets an outage ends later by as long as it lasts") {
  const std::vector<FlappingLink> link = {flapping(3, 10, 5)};  // Down in [5, 8), [15, 18), ...
  CHECK(end_of(link, 0, 4) == 4);
  CHECK(end_of(link, 0, 5) == 5);  // Done when the link goes down.
  CHECK(end_of(link, 0, 6) == 9);
  CHECK(end_of(link, 4, 2) == 9);
  CHECK(end_of(link, 8, 7) == 15);
  CHECK(end_of(link, 8, 8) == 19);
}

TEST_CASE("what is posted while a link is down waits until it is up") {
  const std::vector<FlappingLink> link = {flapping(3, 10, 5)};
  CHECK(end_of(link, 5, 1) == 9);
  CHECK(end_of(link, 7, 1) == 9);
  CHECK(end_of(link, 8, 1) == 9);
  CHECK(end_of(link, 6, 0) == 6);  // Nothing is to be moved.
}

TEST_CASE("an operation over several outages waits for all of them") {
  const std::vector<FlappingLink> link = {flapping(3, 10, 5)};
  CHECK(end_of(link, 0, 5 + 7) == 15);
  CHECK(end_of(link, 0, 5 + 7 + 1) == 19);
  CHECK(end_of(link, 0, 5 + 100 * 7) == 5 + 100 * 10);
  CHECK(end_of(link, 0, 5 + 100 * 7 + 1) == 5 + 100 * 10 + 3 + 1);
  // Longer than could be followed outage by outage: 10^12 of them.
  constexpr std::int64_t kMany = 1'000'000'000'000;
  CHECK(end_of(link, 0, 5 + kMany * 7 + 2) == 5 + kMany * 10 + 3 + 2);
}

TEST_CASE("nothing moves while one of several links is down") {
  // Down in [0, 2), [6, 8), ... and in [3, 4), [8, 9), ...: up in [2, 3), [4, 6), [9, 12), ...
  const std::vector<FlappingLink> links = {flapping(2, 6), flapping(1, 5, 3)};
  CHECK(end_of(links, 0, 1) == 3);
  CHECK(end_of(links, 0, 2) == 5);
  CHECK(end_of(links, 0, 3) == 6);
  CHECK(end_of(links, 0, 4) == 10);
}

TEST_CASE("links that take turns end with a named limit") {
  const std::vector<FlappingLink> never = {flapping(5, 10), flapping(5, 10, 5)};
  try {
    end_of(never, 0, 10);
    FAIL("an end was found");
  } catch (const LimitError& error) {
    CHECK(error.code() == "E1396");
  }
}

TEST_CASE("outages are those of a clock that counts every picosecond") {
  check_property(400, [] {
    const auto links = *rc::gen::resize(
        3, rc::gen::nonEmpty(rc::gen::container<std::vector<FlappingLink>>(rc::gen::exec([] {
          const auto period = *rc::gen::inRange<std::int64_t>(4, 40);
          // With up to three of them something is up, for periods with common factors, too.
          return flapping(*rc::gen::inRange<std::int64_t>(1, 1 + period / 4), period,
                          *rc::gen::inRange<std::int64_t>(0, 50));
        }))));
    const auto start = *rc::gen::inRange<std::int64_t>(0, 200);
    const auto duration = *rc::gen::inRange<std::int64_t>(0, 300);
    RC_ASSERT(end_of(links, start, duration) == counted_end(links, start, duration));
  });
}

}  // namespace shardsim::test
