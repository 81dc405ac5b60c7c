#include <optional>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/harness/check.hpp"
#include "sim/harness/testing/catch2.hpp"

// A probe from any rank is a decision, as a receive from any rank is.
namespace shardsim {
namespace {

// Rank 0 gets one message of each other rank: it looks for any, and receives the one it has found.
std::vector<int> found_order(RankContext& context, bool waits) {
  TaggedMessages& messages = context.messages();
  std::vector<int> order;
  if (context.rank() > 0) {
    messages.send(context.tensor(1), 0, context.rank()).wait();
    return order;
  }
  for (int i = 1; i < context.size(); ++i) {
    std::optional<MessageStatus> found;
    while (!found) {
      found = waits ? messages.probe(kAnySource, kAnyTag, DType::fp64)
                    : messages.try_probe(kAnySource, kAnyTag, DType::fp64);
    }
    messages.recv(context.tensor(1), found->source, found->tag).wait();
    order.push_back(found->source);
  }
  return order;
}

}  // namespace

TEST_CASE("an exploration lets a probe find every message that may be there") {
  for (const bool waits : {true, false}) {
    std::set<std::vector<int>> orders;
    const CheckReport report = check(
        [&](RankContext& context) {
          const std::vector<int> order = found_order(context, waits);
          if (order.size() == 3) orders.insert(order);
        },
        {.ranks = {4}, .explore = {.mode = ExploreMode::dpor, .schedules = 1000}});
    CHECK_THAT(report, Passes());
    CHECK(report.exhausted);
    CHECK(orders.size() == 6);
    // Each order once with rendezvous sends and once with buffered ones, and no other.
    CHECK(report.schedules == 12);
  }
}

TEST_CASE("what a probe decides is told as the cause of a failure that depends on it") {
  const CheckReport report = check(
      [](RankContext& context) {
        const std::vector<int> order = found_order(context, true);
        context.require(order.empty() || order.front() == 1, "rank 1 comes first");
      },
      {.ranks = {3}});
  CHECK_THAT(report, FailsWith("SCHEDULE_DEPENDS").saying("probe"));
}

TEST_CASE("a message that is sent because a probe has found another is no alternative to it") {
  const CheckReport report = check(
      [](RankContext& context) {
        TaggedMessages& messages = context.messages();
        const Tensor one = context.tensor(1);
        if (context.size() < 3) return;
        if (context.rank() == 1) messages.send(one, 0, 1).wait();
        if (context.rank() == 2) {
          messages.recv(one, 0, 2).wait();
          messages.send(one, 0, 3).wait();
        }
        if (context.rank() > 0) return;
        for (const bool is_first : {true, false}) {
          std::optional<MessageStatus> found;
          while (!found) found = messages.try_probe(kAnySource, kAnyTag, DType::fp64);
          context.require(found->source == (is_first ? 1 : 2), "the messages come in order");
          if (is_first) messages.send(one, 2, 2).wait();
          messages.recv(one, found->source, found->tag).wait();
        }
      },
      {.ranks = {3}, .explore = {.mode = ExploreMode::dpor, .schedules = 1000}});
  CHECK_THAT(report, Passes());
  CHECK(report.exhausted);
  CHECK(report.schedules == 2);  // One with either kind of sends.
}

}  // namespace shardsim
