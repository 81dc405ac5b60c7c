#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "tests/app/folding_fixture.hpp"
#include "tests/property/check_property.hpp"

// Steps of random layouts with random faults: never faster than without, and never faster where a
// fault is worse.
namespace shardsim::test {
namespace {

using Overrides = std::vector<std::string>;

Overrides random_layout() {
  const int stages = *rc::gen::element(1, 2, 4);
  Overrides layout = {
      fmt::format("parallelism.tp={}", *rc::gen::element(1, 2)),
      fmt::format("parallelism.pp={}", stages),
      fmt::format("parallelism.zero_stage={}",
                  stages > 1 ? *rc::gen::element(0, 1, 2) : *rc::gen::inRange(0, 4))};
  if (stages > 1) {
    layout.push_back("parallelism.schedule=" +
                     *rc::gen::element<std::string>("1f1b", "gpipe", "zb_h1"));
  }
  return layout;
}

struct Severity {
  double slowdown;
  double bandwidth_factor;
  double latency_us;
  double down_s;
};

Severity random_severity() {
  return {1.0 + *rc::gen::inRange(0, 8) / 4.0, *rc::gen::inRange(1, 9) / 8.0,
          *rc::gen::inRange(0, 4) * 1.0, *rc::gen::inRange(1, 8) * 1e-5};
}

// The worse of both in everything.
Severity worst_of(const Severity& a, const Severity& b) {
  return {std::max(a.slowdown, b.slowdown), std::min(a.bandwidth_factor, b.bandwidth_factor),
          std::max(a.latency_us, b.latency_us), std::max(a.down_s, b.down_s)};
}

Overrides slow_parts(int rank, int node, const char* tier, const Severity& of) {
  return {fmt::format(R"(faults.stragglers=[{{"rank": {}, "slowdown": {}}}])", rank, of.slowdown),
          fmt::format(R"(faults.slow_links=[{{"node": {}, "tier": "{}", "bandwidth_factor": {},
                         "added_latency_us": {}}}])",
                      node, tier, of.bandwidth_factor, of.latency_us)};
}

double last_step(Overrides overrides, const Overrides& more) {
  overrides.insert(overrides.end(), more.begin(), more.end());
  overrides.emplace_back("execution.steps=1");
  return *planned(small_plan("llama"), overrides, "off").number("step_time_s");
}

}  // namespace

TEST_CASE("a step with slow parts is never faster, and slower parts never make it faster") {
  check_property(25, [] {
    const Overrides layout = random_layout();
    const int rank = *rc::gen::inRange(0, 16);
    const int node = *rc::gen::inRange(0, 2);
    const char* const tier = *rc::gen::element("inter_node", "intra_node");
    const Severity mild = random_severity();
    const Severity worse = worst_of(mild, random_severity());
    const double healthy_s = last_step(layout, {});
    const double mild_s = last_step(layout, slow_parts(rank, node, tier, mild));
    RC_ASSERT(mild_s >= healthy_s);
    RC_ASSERT(last_step(layout, slow_parts(rank, node, tier, worse)) >= mild_s);
  });
}

// Outages come by the clock, so a step that begins later may meet fewer of them. Without latencies
// making the groups takes no time, and every step begins at zero.
TEST_CASE("a step with outages is never faster, and longer ones never make it faster") {
  check_property(25, [] {
    Overrides layout = random_layout();
    layout.emplace_back("system.intra_node.latency_us=0");
    layout.emplace_back("system.inter_node.latency_us=0");
    const int node = *rc::gen::inRange(0, 2);
    const auto with = [&](Severity of) {
      of.latency_us = 0.0;
      Overrides all = slow_parts(3, node, "inter_node", of);
      all.push_back(fmt::format(R"(faults.flapping_links=[{{"node": {}, "down_s": {},
                                   "period_s": 1e-4, "phase_s": 2e-5}}])",
                                1 - node, of.down_s));
      return all;
    };
    const Severity mild = random_severity();
    const Severity worse = worst_of(mild, random_severity());
    const double mild_s = last_step(layout, with(mild));
    RC_ASSERT(mild_s >= last_step(layout, {}));
    RC_ASSERT(last_step(layout, with(worse)) >= mild_s);
  });
}

}  // namespace shardsim::test
