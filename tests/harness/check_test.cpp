#include "sim/harness/check.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

// Reports on odd programs: nothing shown, handles kept, tags that are only passing by.
namespace shardsim {
namespace {

std::string code_of(const Program& program, std::vector<int> ranks, CheckOptions options = {}) {
  options.ranks = std::move(ranks);
  const CheckReport report = check(program, options);
  return report.failure ? report.failure->code : "NONE";
}

}  // namespace

TEST_CASE("what is shown on one rank, or by the reference, and not on many is missed") {
  const Program once = [](RankContext& context) {
    if (context.size() == 1) context.show(Shown::output, "x", 1.0);
  };
  CHECK(code_of(once, {2}) == "SHOW_MISMATCH");
  CHECK(code_of(once, {1}) == "NONE");
  CheckOptions options;
  options.reference = once;
  CHECK(code_of([](RankContext&) {}, {2}, options) == "SHOW_MISMATCH");
  CHECK(code_of([](RankContext&) {}, {2}) == "NONE");
}

TEST_CASE("a tensor of which nobody shows an element has a gap at its first") {
  const Program nothing = [](RankContext& context) {
    constexpr std::int64_t kWhole = 7;
    context.show(Shown::output, "x", context.tensor(context.size() == 1 ? kWhole : 0),
                 {.whole = kWhole});
  };
  const CheckReport report = check(nothing, {.ranks = {2}});
  REQUIRE(report.failure);
  CHECK(report.failure->code == "SHARD_COVER");
  CHECK(report.failure->to_text().find("no rank shows element 0 of 7") != std::string::npos);
}

TEST_CASE("a protocol that cannot run on one rank needs no reference") {
  CHECK(code_of(
            [](RankContext& context) {
              const Tensor buffer = context.tensor(1);
              if (context.rank() == 0) context.world().send(buffer, 1).wait();
              if (context.rank() == 1) context.world().recv(buffer, 0).wait();
            },
            {2}) == "NONE");
}

TEST_CASE("a work that is kept beyond its rank is a leak, and harmless afterwards") {
  const auto kept = std::make_shared<std::vector<Work>>();
  CHECK(code_of([kept](RankContext& context) { kept->push_back(context.world().barrier()); },
                {2}) == "REQ_LEAK");
  CHECK_THROWS_AS(kept->front().wait(), UsageError);
  kept->clear();
}

TEST_CASE("a communicator that is kept beyond its rank is a leak, and harmless afterwards") {
  const auto kept = std::make_shared<std::vector<std::unique_ptr<Communicator>>>();
  CHECK(code_of(
            [kept](RankContext& context) {
              kept->push_back(context.world().split(0, context.rank(), "kept"));
            },
            {2}) == "GROUP_LEAK");
  kept->clear();
}

TEST_CASE("a tag is blamed where both sides stand there for good, and only there") {
  const Program passing_by = [](RankContext& context) {
    const Tensor early = context.tensor(1);
    const Tensor late = context.tensor(1);
    if (context.rank() == 0) {
      Work prefetched = context.messages().recv(early, 1, 5);
      context.world().barrier().wait();
      prefetched.wait();
      context.messages().recv(late, 1, 6).wait();
    } else if (context.rank() == 1) {
      Work first = context.messages().send(late, 0, 6);
      context.world().barrier().wait();
      context.messages().send(early, 0, 5).wait();
      first.wait();
    }
  };
  CHECK(code_of(passing_by, {3}) == "COLL_MISSING");
  CHECK(code_of(passing_by, {2}) == "NONE");
  CHECK(code_of(
            [](RankContext& context) {
              const Tensor buffer = context.tensor(1);
              if (context.rank() == 0) context.messages().recv(buffer, kAnySource, 1).wait();
              if (context.rank() == 1) context.messages().send(buffer, 0, 2).wait();
            },
            {2}) == "P2P_TAG");
}

TEST_CASE("a receive from anyone where there is nobody has a place and a circle") {
  const CheckReport report = check(
      [](RankContext& context) {
        context.messages().recv(context.tensor(1), kAnySource, 0).wait();
      },
      {.ranks = {1}});
  REQUIRE(report.failure);
  CHECK(report.failure->code == "DEADLOCK");
  REQUIRE(report.failure->sides.size() == 1);
  CHECK(report.failure->sides[0].site.line > 0);
  CHECK(report.failure->cycle.size() == 1);
}

TEST_CASE("reports speak of any rank, and give no size to calls that have none") {
  const auto text_of = [](const Program& program) {
    return check(program, {.ranks = {2}}).to_text();
  };
  const std::string any = text_of([](RankContext& context) {
    const Tensor buffer = context.tensor(1);
    if (context.rank() == 0) context.messages().recv(buffer, kAnySource, 1).wait();
    if (context.rank() == 1) context.messages().send(buffer, 0, 2).wait();
  });
  CHECK(any.find("with tag 1 from any rank") != std::string::npos);
  CHECK(any.find("rank -1") == std::string::npos);
  const std::string sizes = text_of([](RankContext& context) {
    const Tensor in = context.tensor(4);
    const Tensor out = context.tensor(4);
    if (context.rank() == 0) context.world().all_to_all(out, in, {}, {}).wait();
    if (context.rank() == 1) context.world().barrier().wait();
  });
  CHECK(sizes.find("all_to_all fp64 at") != std::string::npos);
  CHECK(sizes.find("barrier at") != std::string::npos);
  CHECK(sizes.find("x 0") == std::string::npos);
}

TEST_CASE("a failure of any number of steps shrinks to one step, not to none") {
  const Program program = [](RankContext& context) { context.require(context.size() == 1, "x"); };
  const CheckOptions options{.ranks = {2}, .steps = 3};
  const CheckReport report = check(program, options);
  REQUIRE(report.failure);
  CHECK(shrink(program, options, report).token.steps == 1);
}

TEST_CASE("a replayed run that ends well says that, and no more") {
  CheckOptions options{.name = "fine", .ranks = {1, 2, 3}};
  options.replay = to_text(ReplayToken{.name = "fine", .ranks = 3});
  const CheckReport report = check([](RankContext&) {}, options);
  CHECK(report.summary == "fine: the replayed run of 3 ranks ends well");
}

TEST_CASE("tokens in the environment are for the check that they name, whoever has built them") {
  // A token of another build and another check is not looked at.
  const std::string other = "1.0123456789ab.other.3.2.1.0.0.-.-";
  setenv("SHARDSIM_REPLAY", (other + "." + token_checksum(other)).c_str(), 1);
  const CheckReport whole = check([](RankContext&) {}, {.name = "fine", .ranks = {2}});
  setenv("SHARDSIM_REPLAY", to_text(ReplayToken{.name = "fine", .ranks = 3}).c_str(), 1);
  const CheckReport replayed = check([](RankContext&) {}, {.name = "fine", .ranks = {2}});
  unsetenv("SHARDSIM_REPLAY");
  CHECK(whole.to_text().find("right on 2 ranks") != std::string::npos);
  CHECK(replayed.to_text().find("3 ranks ends well") != std::string::npos);
}

TEST_CASE(
    "layouts are checked one by one, and a failure names, replays and shrinks to one of them") {
  const Program program = [](RankContext& context) {
    const MeshShape* const layout = context.layout();
    const bool bad = layout != nullptr && layout->tp == 2;
    context.show(Shown::output, "x", bad ? 2.0 : 1.0);
  };
  CheckOptions options{.name = "layouts",
                       .layouts = {{.dp_shard = 3}, {.dp_shard = 2, .tp = 2}, {.tp = 2}}};
  const CheckReport report = check(program, options);
  REQUIRE(report.failure);
  CHECK(report.token->ranks == 4);
  CHECK(report.token->layout == 1);
  const Shrunk shrunk = shrink(program, options, report);
  CHECK(shrunk.token.ranks == 2);
  CHECK(shrunk.token.layout == 2);
  options.replay = to_text(shrunk.token);
  CHECK(check(program, options).failure->code == "OUT_DIFF");
  options.layouts.pop_back();
  CHECK_THROWS_AS(check(program, options), UsageError);
}

TEST_CASE("a reference that fails is a report that nothing can shrink") {
  const Program program = [](RankContext& context) {
    const Tensor buffer = context.tensor(1);
    if (context.rank() == 0) context.world().send(buffer, 1).wait();
    if (context.rank() == 1) context.world().recv(buffer, 0).wait();
    context.show(Shown::output, "x", buffer);
  };
  const CheckOptions options{.ranks = {2}};
  const CheckReport report = check(program, options);
  REQUIRE(report.failure);
  CHECK(report.failure->summary.rfind("the reference, on one rank: ", 0) == 0);
  CHECK_THROWS_AS(shrink(program, options, report), UsageError);
}

TEST_CASE("a message from any rank may be looked for by tests, whatever the schedule") {
  const Program program = [](RankContext& context) {
    const Tensor buffer = context.tensor(1, [&](std::int64_t) { return context.rank(); });
    if (context.rank() != 0) return context.messages().send(buffer, 0, 0).wait();
    double sum = 0.0;
    for (int i = 1; i < context.size(); ++i) {
      Work work = context.messages().recv(buffer, kAnySource, 0);
      while (!work.test()) {
      }
      sum += buffer.get(0);
    }
    context.require(sum == 3.0, "all messages come");
  };
  CheckOptions options{.ranks = {3}};
  options.explore.mode = ExploreMode::pct;
  const CheckReport report = check(program, options);
  INFO(report.to_text());
  CHECK(report.passed());
}

TEST_CASE("reports stay short whatever there is to warn of") {
  const CheckReport report = check(
      [](RankContext& context) {
        std::vector<std::unique_ptr<Communicator>> groups;
        for (int i = 0; i < 40; ++i) {
          groups.push_back(context.world().split(0, context.rank(), "group " + std::to_string(i)));
        }
        for (int i = 0; i < 40; i += 2) {
          const bool swap = context.rank() == 1;
          Work first = groups[static_cast<std::size_t>(swap ? i + 1 : i)]->barrier();
          Work second = groups[static_cast<std::size_t>(swap ? i : i + 1)]->barrier();
          second.wait();
          first.wait();
        }
      },
      {.ranks = {2}});
  CHECK(report.warnings.size() == 20);
  const std::string text = report.to_text();
  CHECK(std::count(text.begin(), text.end(), '\n') <= 40);
}

}  // namespace shardsim
