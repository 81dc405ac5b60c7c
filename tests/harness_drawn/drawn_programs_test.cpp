#include <chrono>
#include <cstdio>

#include <catch2/catch.hpp>

#include "sim/harness/check.hpp"
#include "tests/harness_drawn/draw_program.hpp"
#include "tests/harness_drawn/rank_plan.hpp"
#include "tests/property/check_property.hpp"

// No false alarm: correct programs of all calls, groups and orders of waits are silent.
namespace shardsim::drawn {

namespace {

constexpr int kPrograms = 2'000;
constexpr int kLongPrograms = 100'000;
constexpr int kDrawnSchedules = 20;

}  // namespace

TEST_CASE("drawn programs that are correct are silent, under all schedules tried") {
  int open = 0;
  std::int64_t runs = 0;
  std::int64_t calls = 0;
  const auto begin = std::chrono::steady_clock::now();
  test::check_cases(test::long_run() ? kLongPrograms : kPrograms, [&] {
    const DrawnProgram program = *drawn_programs();
    const ProgramPlan plan = plan_of(program);
    CheckOptions options{.name = "drawn", .ranks = {program.ranks}};
    options.explore.mode = program.has_open_receives() ? ExploreMode::pct : ExploreMode::none;
    options.explore.schedules = kDrawnSchedules;
    const CheckReport report = check(program_of(plan), options);
    if (!report.passed() || !report.warnings.empty()) RC_FAIL(to_text(plan) + report.to_text());
    open += program.has_open_receives() ? 1 : 0;
    runs += report.schedules;
    for (const RankPlan& rank : plan.ranks) calls += static_cast<std::int64_t>(rank.actions.size());
  });
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  std::printf(
      "figures: %d correct programs, %d with open receives, %lld actions, %lld runs: "
      "silent; %.1f s\n",
      test::long_run() ? kLongPrograms : kPrograms, open, static_cast<long long>(calls),
      static_cast<long long>(runs), wall.count());
}

}  // namespace shardsim::drawn
