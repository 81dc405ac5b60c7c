#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "sim/harness/drawn_check.hpp"
#include "sim/harness/testing/catch2.hpp"
#include "sim/harness/testing/rapidcheck.hpp"
#include "sim/harness/training_program.hpp"
#include "tests/property/check_property.hpp"

namespace shardsim {

namespace {

/// Sums one row of `hidden` numbers over all ranks. Planted: the last number is left out of rows
/// with more than five, where data-parallel ranks have shards.
Program row_sum(bool planted) {
  return [planted](RankContext& context) {
    const std::int64_t hidden = context.extent("hidden");
    const bool is_short =
        planted && hidden > 5 && context.layout() != nullptr && context.layout()->dp_shard > 1;
    const Tensor row =
        context.tensor(hidden, [&](std::int64_t i) { return context.rank() == 0 ? i + 1.0 : 0.0; });
    context.world()
        .all_reduce(row.view(0, Shape{is_short ? hidden - 1 : hidden}), ReduceOp::sum)
        .wait();
    context.show(Shown::output, "row", row);
  };
}

const Draws kDraws = {.cases = 60,
                      .extents = {{"hidden", 1, 40}},
                      .program = "row_sum(false)",
                      .seed = test::property_seed()};

std::string code_of(const Draws& draws, const CheckOptions& options = {}) {
  try {
    return check(row_sum(false), options, draws).summary;
  } catch (const UsageError& error) {
    return error.code();
  }
}

}  // namespace

TEST_CASE("a right program is right at all points that are drawn, and they are not all alike") {
  std::set<std::string> layouts;
  std::set<std::int64_t> sizes;
  std::set<DType> precisions;
  std::set<std::uint64_t> seeds;
  const Program sum = row_sum(false);
  const Program noting = [&](RankContext& context) {
    if (const MeshShape* const layout = context.layout()) {
      std::ostringstream text;
      showValue(*layout, text);
      layouts.insert(text.str());
      sizes.insert(context.extent("hidden"));
      precisions.insert(context.precision());
      seeds.insert(context.seed());
    }
    sum(context);
  };
  const CheckReport report = check(noting, {.name = "row"}, kDraws);
  CHECK_THAT(report, Passes());
  CHECK(report.summary.find("row: right at 60 drawn points (seed ") == 0);
  CHECK(report.summary.find(" of up to 8 ranks") != std::string::npos);
  CHECK(layouts.size() > 20);
  CHECK(sizes.size() > 15);
  CHECK(*std::ranges::max_element(sizes) > 20);
  CHECK(precisions == std::set{DType::fp64, DType::fp32, DType::bf16});
  CHECK(seeds.size() > 30);
}

TEST_CASE("a failure shrinks to the fewest ranks and the smallest size, and prints a test") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Draws draws = kDraws;
    draws.seed = seed;
    const CheckReport report = check(row_sum(true), {.name = "row"}, draws);
    INFO(report.to_text());
    CHECK_THAT(report, FailsWith("OUT_DIFF"));
    // The smallest: nothing about it can be left out.
    CHECK(report.failure->members.size() <= 2);
    CHECK(report.test.find("options.layouts = {shardsim::MeshShape{.dp_shard = 2}};") !=
          std::string::npos);
    CHECK(report.test.find("options.extents = {{\"hidden\", 6}};") != std::string::npos);
    CHECK(report.test.find("precision") == std::string::npos);
    CHECK(report.test.find("seeds") == std::string::npos);
    CHECK(report.drawn.find("seed " + std::to_string(seed) + ";") != std::string::npos);
    CHECK(report.to_text().find(report.test) != std::string::npos);
    // A token would be of one point, and the check draws many.
    CHECK(report.failure->replay.empty());
  }
}

// clang-format off
// The test that a failure prints, pasted.
namespace pasted {
TEST_CASE("row: no OUT_DIFF") {
  shardsim::CheckOptions options;
  options.name = "row";
  options.layouts = {shardsim::MeshShape{.dp_shard = 2}};
  options.extents = {{"hidden", 6}};
  options.steps = 1;
  CHECK_THAT(shardsim::check(row_sum(false), options), shardsim::Passes());
}
}  // namespace pasted
// clang-format on

TEST_CASE("the test that is printed is one that can be pasted") {
  const CheckReport report = check(row_sum(true), {.name = "row"}, kDraws);
  std::ifstream own(CallSite::here().file);
  const std::string text(std::istreambuf_iterator<char>(own), {});
  INFO(report.test);
  CHECK(text.find(report.test) != std::string::npos);
}

TEST_CASE("a printed test has all that makes the check, and names the functions it cannot print") {
  CheckOptions options{.name = "a \"b\" \\"};
  options.layouts = {{.tp = 4, .tp_copies = {2}}, {.dp_shard = 2, .pp = 2, .v_placement = true}};
  options.extents = {{"rows", 3}, {"hidden", 5}};
  options.seeds = {7, 8};
  options.precision = DType::bf16;
  options.tolerance = 0.5;
  options.watch_buffers = false;
  options.explore = {.mode = ExploreMode::dpor, .schedules = 9, .depth = 3, .seed = 4};
  options.reference = [](RankContext&) {};
  options.bytes_sent = [](int, int) { return std::int64_t{0}; };
  CHECK(test_text(options, "mine()", {.code = "GRAD_DIFF"}) ==
        R"(TEST_CASE("a \"b\" \\: no GRAD_DIFF") {
  shardsim::CheckOptions options;
  options.name = "a \"b\" \\";
  options.layouts = {shardsim::MeshShape{.tp = 4, .tp_copies = {2}}, shardsim::MeshShape{.dp_shard = 2, .pp = 2, .v_placement = true}};
  options.extents = {{"rows", 3}, {"hidden", 5}};
  options.seeds = {7, 8};
  options.precision = shardsim::DType::bf16;
  options.tolerance = 0.5;
  options.explore.mode = shardsim::ExploreMode::dpor;
  options.explore.schedules = 9;
  options.explore.depth = 3;
  options.explore.seed = 4;
  options.watch_buffers = false;
  // As in the check that was drawn: options.reference, options.bytes_sent.
  CHECK_THAT(shardsim::check(mine(), options), shardsim::Passes());
}
)");
}

TEST_CASE(
    "only points that the program is made for are checked, and enough of them must be drawn") {
  Draws draws = kDraws;
  draws.accepts = [](const DrawnPoint& point) { return point.layout.tp == 1; };
  CheckOptions options{.name = "row"};
  const Program sum = row_sum(false);
  const Program no_tp = [&](RankContext& context) {
    context.require(context.layout() == nullptr || context.layout()->tp == 1, "tp is 1");
    sum(context);
  };
  CHECK_THAT(check(no_tp, options, draws), Passes());
  // Simpler points are asked as well.
  draws.accepts = [](const DrawnPoint& point) { return point.extents.front().value >= 9; };
  const CheckReport report = check(row_sum(true), options, draws);
  CHECK(report.test.find("{\"hidden\", 9}") != std::string::npos);
  draws.accepts = [](const DrawnPoint& point) { return point.layout.size() > 1000; };
  CHECK(code_of(draws) == "E1214");
}

TEST_CASE("a simpler point that fails otherwise is not the same failure, and is passed over") {
  // Sizes 6 to 3, each simpler than the one before: other sources draw like this.
  const std::function<DrawnTree(std::int64_t)> tree = [&](std::int64_t hidden) {
    return DrawnTree{.point = {.layout = {.dp_shard = 2}, .extents = {{"hidden", hidden}}},
                     .simpler = [&tree, hidden] {
                       return [&tree, next = hidden - 1]() mutable -> std::optional<DrawnTree> {
                         if (next < 3) return std::nullopt;
                         return tree(next--);
                       };
                     }};
  };
  const Program program = [](RankContext& context) {
    const std::int64_t hidden = context.extent("hidden");
    context.require(hidden != 5, "any size but 5");
    const double own = hidden > 3 ? context.rank() + 1.0 : 1.0;
    context.show(Shown::output, "value", own);
  };
  const CheckReport report = check_drawn(
      program, {.name = "value"}, {.cases = 1, .source = "a list"}, [&](int) { return tree(6); });
  INFO(report.to_text());
  CHECK_THAT(report, FailsWith("OUT_DIFF"));
  CHECK(report.test.find("{\"hidden\", 4}") != std::string::npos);
  CHECK(report.drawn == "point 0 of a list; 3 simpler ones were tried, 1 was taken");
}

TEST_CASE("draws without a meaning, and extents that nobody gave, are refused by name") {
  Draws draws = kDraws;
  draws.cases = 0;
  CHECK(code_of(draws) == "E1213");
  draws = kDraws;
  draws.precisions.clear();
  CHECK(code_of(draws) == "E1213");
  draws = kDraws;
  draws.extents = {{"hidden", 4, 3}};
  CHECK(code_of(draws) == "E1213");
  CHECK(code_of(kDraws, {.replay = "token"}) == "E1213");
  const CheckReport report = check(row_sum(false), {.ranks = {2}, .extents = {{"rows", 2}}});
  CHECK_THAT(report, FailsWith("RANK_FAILED").saying("the check has no extent \"hidden\""));
}

TEST_CASE("the training loop is right at all layouts that are drawn for it") {
  const TrainingStrategy strategy{.zero_stage = 2};
  Draws draws{.cases = 12, .layouts = gen::mesh_shapes(8), .seed = test::property_seed()};
  draws.accepts = [&](const DrawnPoint& point) {
    const MeshShape& shape = point.layout;
    return shape.tp <= 2 && shape.pp <= 2 && shape.cp == 1 && shape.expert_parts() == 1 &&
           strategy.global_microbatches % shape.data_size() == 0;
  };
  CHECK_THAT(check(training_program(strategy), {.name = "training"}, draws), Passes());
}

}  // namespace shardsim
