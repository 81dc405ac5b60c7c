#include <string>

#include <catch2/catch.hpp>

#include "sim/harness/check.hpp"

// Values that are wrong under some schedules only are said to depend on them.
namespace shardsim {
namespace {

// Takes so long that what this rank sends next comes last.
void be_late(RankContext& context) {
  constexpr std::int64_t kBytes = std::int64_t{1} << 30;
  context.runtime().compute({"slow", ComputeKind::memory_bound, DType::fp64, 0, kBytes}, [] {});
}

// Ranks 1 and 2 send their numbers to rank 0, which takes them as they come; rank 2 is late.
double first_of_two(RankContext& context) {
  const Tensor number = context.tensor(1, [&](std::int64_t) { return context.rank(); });
  if (context.size() < 3) return 1.0;
  if (context.rank() == 2) be_late(context);
  if (context.rank() > 0) context.messages().send(number, 0, 0).wait();
  if (context.rank() != 0) return 1.0;
  const Tensor first = context.tensor(1);
  const Tensor second = context.tensor(1);
  context.messages().recv(first, kAnySource, 0).wait();
  context.messages().recv(second, kAnySource, 0).wait();
  return first.get(0);
}

void check_depends(const Program& program, const std::string& code) {
  const CheckReport report = check(program, {.ranks = {3}});
  CAPTURE(report.to_text());
  REQUIRE(report.failure);
  CHECK(report.failure->code == "SCHEDULE_DEPENDS");
  const std::string text = report.to_text();
  CHECK(text.find("where rank 0 receives message 0 of rank 1, the run ends well") !=
        std::string::npos);
  CHECK(text.find("where rank 0 receives message 0 of rank 2, it ends with " + code) !=
        std::string::npos);
  // The receive, in both orders, and the place of the value.
  REQUIRE(report.failure->sides.size() == 3);
  CHECK(report.failure->sides[0].ranks == std::vector<int>{0});
  CHECK(report.failure->sides[0].site.line == report.failure->sides[1].site.line);
  CHECK(report.failure->sides[2].site.line > 0);
}

}  // namespace

TEST_CASE("a requirement that fails in one of two orders depends on the schedule") {
  check_depends(
      [](RankContext& context) { context.require(first_of_two(context) == 1.0, "it is rank 1's"); },
      "CHECK_FAILED");
}

TEST_CASE("a shown value that is wrong in one of two orders depends on the schedule") {
  check_depends(
      [](RankContext& context) { context.show(Shown::output, "first", first_of_two(context)); },
      "OUT_DIFF");
}

TEST_CASE("a value that is wrong in either order keeps its code") {
  const CheckReport report = check(
      [](RankContext& context) {
        const double scale = context.size() > 2 && context.rank() == 0 ? 7.0 : 1.0;
        context.show(Shown::output, "first", scale * (first_of_two(context) > 0.0 ? 1.0 : 0.0));
      },
      {.ranks = {3}});
  REQUIRE(report.failure);
  CHECK(report.failure->code != "SCHEDULE_DEPENDS");
}

}  // namespace shardsim
