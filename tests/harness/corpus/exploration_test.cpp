#include <algorithm>
#include <cstdio>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/harness/corpus/hidden_bugs.hpp"
#include "tests/sample.hpp"

namespace shardsim::corpus {

namespace {

constexpr int kSeeds = 40;
constexpr int kMostSchedules = 10'000;
constexpr int kMostAtDepth3 = 100'000;

CheckOptions options_of(const HiddenBug& bug, const Exploration& explore) {
  return {.name = "hidden", .ranks = {bug.ranks}, .explore = explore};
}

// Explores with so many seeds, and prints what it took. Returns how many of them have found it.
std::size_t seeds_that_find(const HiddenBug& bug, int seeds, int most_schedules) {
  CHECK(check(bug.program, options_of(bug, {.mode = ExploreMode::none})).passed());
  std::vector<std::int64_t> needed;
  std::int64_t choices = 0;
  for (int seed = 1; seed <= seeds; ++seed) {
    const Exploration explore = {.mode = ExploreMode::pct,
                                 .schedules = most_schedules,
                                 .depth = bug.depth,
                                 .seed = static_cast<std::uint64_t>(seed)};
    const CheckReport report = check(bug.program, options_of(bug, explore));
    choices = std::max(choices, report.most_choices);
    if (report.passed() || report.schedules > most_schedules) continue;
    CHECK(report.failure->code == bug.code);
    if (report.failure->code == bug.code) needed.push_back(report.schedules);
  }
  std::sort(needed.begin(), needed.end());
  REQUIRE(!needed.empty());
  std::printf(
      "%-34s %d ranks, %lld choices: found in %zu of %d seeds, median %lld schedules, most "
      "%lld\n",
      bug.name, bug.ranks, static_cast<long long>(choices), needed.size(), seeds,
      static_cast<long long>(needed[needed.size() / 2]), static_cast<long long>(needed.back()));
  return needed.size();
}

}  // namespace

TEST_CASE("bugs that need two events in one order are found within 10,000 schedules") {
  for (const HiddenBug& bug : hidden_bugs()) {
    CAPTURE(bug.name);
    CHECK(seeds_that_find(bug, kSeeds, kMostSchedules) * 100 >= std::size_t{kSeeds} * 95);
  }
}

// By the bound of pct, 1 / (n k^(d - 1)) a schedule, these would be found by 96 and 92 of 100
// seeds, if all of a rank's calls were choices.
TEST_CASE("bugs deep in longer runs are found by nearly all seeds") {
  const int seeds = test::long_run() ? kSeeds : kSeeds / 10;
  for (const HiddenBug& bug : deeper_bugs()) {
    CAPTURE(bug.name);
    const bool at_depth_3 = bug.depth == 3;
    const std::size_t found =
        seeds_that_find(bug, seeds, at_depth_3 ? kMostAtDepth3 : kMostSchedules);
    // 38 and 36 of 40.
    CHECK(found * 100 >= static_cast<std::size_t>(seeds) * (at_depth_3 ? 90 : 95));
  }
}

TEST_CASE("dpor goes through all of 3 ranks with 12 operations each") {
  constexpr int kEnough = 10'000'000;
  const CheckOptions options = {
      .name = "twelve",
      .ranks = {3},
      .explore = {.mode = ExploreMode::dpor, .schedules = kEnough},
  };
  const CheckReport report = check(twelve_operations, options);
  CAPTURE(report.to_text());
  CHECK(report.passed());
  CHECK(report.exhausted);
  std::printf("3 ranks with 12 operations each: %lld schedules, all there are\n",
              static_cast<long long>(report.schedules));
  // Every receiver takes messages 3 of 6 from one and 3 from the other; not all orders can come
  // about when sends wait, all when they do not.
  CHECK(report.schedules > 100);
}

}  // namespace shardsim::corpus
