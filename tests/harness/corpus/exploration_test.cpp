#include <algorithm>
#include <cstdio>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/harness/corpus/hidden_bugs.hpp"

namespace shardsim::corpus {

namespace {

constexpr int kSeeds = 40;
constexpr int kMostSchedules = 10'000;

CheckOptions options_of(const HiddenBug& bug, const Exploration& explore) {
  return {.name = "hidden", .ranks = {bug.ranks}, .explore = explore};
}

}  // namespace

TEST_CASE("bugs that need two events in one order are found within 10,000 schedules") {
  for (const HiddenBug& bug : hidden_bugs()) {
    CAPTURE(bug.name);
    CHECK(check(bug.program, options_of(bug, {.mode = ExploreMode::none})).passed());
    std::vector<std::int64_t> needed;
    std::int64_t choices = 0;
    for (int seed = 1; seed <= kSeeds; ++seed) {
      const Exploration explore = {.mode = ExploreMode::pct,
                                   .schedules = kMostSchedules,
                                   .depth = 2,
                                   .seed = static_cast<std::uint64_t>(seed)};
      const CheckReport report = check(bug.program, options_of(bug, explore));
      choices = std::max(choices, report.most_choices);
      if (report.passed() || report.schedules > kMostSchedules) continue;
      CHECK(report.failure->code == bug.code);
      if (report.failure->code == bug.code) needed.push_back(report.schedules);
    }
    std::sort(needed.begin(), needed.end());
    REQUIRE(!needed.empty());
    std::printf(
        "%-32s %d ranks, %lld choices: found in %zu of %d seeds, median %lld schedules, most "
        "%lld\n",
        bug.name, bug.ranks, static_cast<long long>(choices), needed.size(), kSeeds,
        static_cast<long long>(needed[needed.size() / 2]), static_cast<long long>(needed.back()));
    CHECK(needed.size() * 100 >= std::size_t{kSeeds} * 95);
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
