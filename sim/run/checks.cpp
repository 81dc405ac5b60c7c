#include <algorithm>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "reports/units.hpp"
#include "sim/run/metrics.hpp"

namespace shardsim {

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

// Below it, a training does not end in any useful time.
constexpr double kHopelessGoodput = 0.01;

}  // namespace

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

std::vector<std::string> fault_warnings(const FaultSpec& faults, const Result& result) {
  std::vector<std::string> warnings;
  const double step_s = result.number(metric::kStepTimeS).value_or(0.0);
  double period_s = 0.0;
  for (const auto& link : faults.flapping_links) period_s = std::max(period_s, link.period_s);
  if (step_s < period_s) {
    warnings.push_back(fmt::format(
        "links flap every {} and a step takes {}: how much of an outage the step that is reported "
        "meets depends on faults.flapping_links[].phase_s, and so do days and costs; plan several "
        "phases before drawing conclusions",
        format_seconds(period_s), format_seconds(step_s)));
  }
  const auto goodput = result.number(metric::kGoodputFraction);
  if (!goodput) return warnings;
  if (*goodput < kHopelessGoodput) {
    warnings.push_back(fmt::format(
        "failures come faster than work can be kept: the goodput is {:.2g} %, and the training "
        "practically never ends; see faults.gpu_mtbf_hours, checkpoint_write_s and restart_s",
        100.0 * *goodput));
  }
  const double interval_s = result.number(metric::kGoodputCheckpointIntervalS).value_or(step_s);
  if (interval_s < step_s) {
    warnings.push_back(fmt::format(
        "faults.checkpoint_interval_s is {}, less than a step of {}: checkpoints are written "
        "between steps, so they cannot be more frequent than that",
        format_seconds(interval_s), format_seconds(step_s)));
  }
  return warnings;
}

}  // namespace shardsim
