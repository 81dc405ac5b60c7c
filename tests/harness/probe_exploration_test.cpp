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
      found = waits ? messages.probe(kAnySource, kAnyTag) : messages.try_probe(kAnySource, kAnyTag);
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

}  // namespace shardsim
