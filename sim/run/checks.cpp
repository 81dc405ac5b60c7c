#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "sim/run/metrics.hpp"

namespace shardsim {

Check conservation_check(const FiberWorld& world) {
  for (const auto& [name, counters] : world.traffic()) {
    if (counters.payload_sent != counters.payload_received ||
        counters.scalar_sent != counters.scalar_received ||
        counters.to_next != counters.from_previous) {
      return {"conservation", false,
              fmt::format("group {}: {} bytes sent, {} received; along its rings {} and {}", name,
                          counters.payload_sent + counters.scalar_sent,
                          counters.payload_received + counters.scalar_received, counters.to_next,
                          counters.from_previous)};
    }
  }
  std::int64_t num_links = 0;
  std::optional<LinkTraffic> leak;
  world.for_each_link([&](const LinkTraffic& link) {
    ++num_links;
    if (link.counts.sent != link.counts.received && !leak) leak = link;
  });
  if (leak) {
    return {"conservation", false,
            fmt::format("group {}: rank {} sent {} bytes to rank {}, which received {}",
                        leak->group->name(), leak->from_rank, leak->counts.sent, leak->to_rank,
                        leak->counts.received)};
  }
  const TrafficCounters total = world.total_traffic();
  return {"conservation", true,
          fmt::format("{} bytes sent and received in {} messages; the two ends of each of {} links "
                      "agree",
                      total.payload_sent + total.scalar_sent, total.messages, num_links)};
}

Check oracle_check(const Verification& oracle) {
  return {"oracle", oracle.passed(), oracle.detail()};
}

namespace {

bool holds(double actual, CompareOp op, double expected) {
  switch (op) {
    case CompareOp::less:
      return actual < expected;
    case CompareOp::less_equal:
      return actual <= expected;
    case CompareOp::equal:
      return actual == expected;
    case CompareOp::not_equal:
      return actual != expected;
    case CompareOp::greater_equal:
      return actual >= expected;
    case CompareOp::greater:
      return actual > expected;
  }
  return false;
}

}  // namespace

std::vector<ExpectationResult> judge(const std::vector<Expectation>& expectations,
                                     const Result& result) {
  std::vector<ExpectationResult> judged;
  for (const Expectation& expectation : expectations) {
    const std::optional<double> actual = result.number(expectation.metric);
    // A metric that this run does not have (the oracle's, in a plan) fails: the run did not show
    // that it holds.
    judged.push_back({.metric = expectation.metric,
                      .op = to_string(expectation.op),
                      .expected = expectation.value,
                      .actual = actual.value_or(std::numeric_limits<double>::quiet_NaN()),
                      .passed = actual && holds(*actual, expectation.op, expectation.value)});
  }
  return judged;
}

}  // namespace shardsim
