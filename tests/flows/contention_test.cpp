#include "sim/hardware/flows/contention.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/flows/drawn_flows.hpp"
#include "tests/flows/flow_scene.hpp"
#include "tests/property/check_property.hpp"
#include "tests/units.hpp"

// Delays by who caused them, by hand and as sums; what links carry.
namespace shardsim::test {
namespace {

struct Owned {
  SceneFlow flow;
  std::uint32_t owner;
};

// A network of three owners that has run these flows over one link of `capacity` cards.
std::unique_ptr<FlowNetwork> run_owned(double capacity, const std::vector<Owned>& flows) {
  auto network = std::make_unique<FlowNetwork>(FlowOptions{.num_owners = 3});
  network->add_link("link", cards(capacity));
  std::int64_t id = 0;
  for (const Owned& owned : flows) {
    FlowDemand demand = demand_of(owned.flow);
    demand.owner = owned.owner;
    network->start(FlowId{id++}, Time::from_seconds(owned.flow.start), demand);
  }
  drive(*network, [](const EndedFlow&) {});
  return network;
}

std::vector<Time> row_of(const FlowNetwork& network, std::uint32_t slowed) {
  std::vector<Time> row;
  for (std::uint32_t by = 0; by <= 3; ++by)
    row.push_back(ps(static_cast<std::int64_t>(network.contention().charged(slowed, by))));
  return row;
}

std::vector<std::int64_t> split(std::int64_t total, const std::vector<Int128>& weights) {
  std::vector<Int128> parts;
  split_exactly(total, weights, parts);
  return {parts.begin(), parts.end()};
}

std::int64_t last_of(const std::map<std::int64_t, std::int64_t>& ends) {
  std::int64_t last = 0;
  for (const auto& [flow, end] : ends) last = std::max(last, end);
  return last;
}

}  // namespace

TEST_CASE("two flows that share a link slow each other") {
  const auto network = run_owned(
      1, {{{.size = 1, .links = {0}, .cap = 1}, 0}, {{.size = 2, .links = {0}, .cap = 1}, 1}});
  CHECK(row_of(*network, 0) == std::vector<Time>{ps(0), seconds(1), ps(0), ps(0)});
  CHECK(row_of(*network, 1) == std::vector<Time>{seconds(1), ps(0), ps(0), ps(0)});
  CHECK(row_of(*network, 2) == std::vector<Time>(4));
}

TEST_CASE("delays are charged in proportion to the others' rates") {
  // For 2 s at rates of 2/5, 1/5 and 2/5; the capped flow is slowed by nobody, and goes on.
  const auto network = run_owned(1, {{{.size = 0.8, .links = {0}, .cap = 1}, 0},
                                     {{.size = 1, .links = {0}, .cap = 0.2}, 1},
                                     {{.size = 0.8, .links = {0}, .cap = 1}, 2}});
  CHECK(row_of(*network, 0) == std::vector<Time>{ps(0), seconds(2, 5), seconds(4, 5), ps(0)});
  CHECK(row_of(*network, 1) == std::vector<Time>(4));
  CHECK(row_of(*network, 2) == std::vector<Time>{seconds(4, 5), seconds(2, 5), ps(0), ps(0)});
}

TEST_CASE("a flow of the same owner counts, the flow itself does not") {
  const std::vector<Owned> two(2, {{.size = 1, .links = {0}, .cap = 1}, 1});
  CHECK(row_of(*run_owned(1, two), 1) == std::vector<Time>{ps(0), seconds(2), ps(0), ps(0)});
  // A flow that stands for two is beside one of its kind. Its delay counts once.
  const auto folded = run_owned(1, {{{.size = 1, .links = {0}, .cap = 1, .weight = 2}, 1}});
  CHECK(row_of(*folded, 1) == std::vector<Time>{ps(0), seconds(1), ps(0), ps(0)});
}

TEST_CASE("a flow that is alone on a slower link is slowed by the link") {
  const auto network = run_owned(0.25, {{{.size = 1, .links = {0}, .cap = 1}, 2}});
  CHECK(row_of(*network, 2) == std::vector<Time>{ps(0), ps(0), ps(0), seconds(3)});
}

TEST_CASE("latency is no delay") {
  const auto network = run_owned(1, {{{.size = 1, .links = {0}, .cap = 1, .latency = 0.5}, 0},
                                     {{.size = 0.5, .links = {0}, .cap = 1}, 1}});
  CHECK(row_of(*network, 0) == std::vector<Time>(4));
  CHECK(row_of(*network, 1) == std::vector<Time>(4));
}

TEST_CASE("charges sum to the delays, and bytes to the integral of the rate") {
  const std::uint64_t num_scenes = long_run() ? 10'000 : 600;
  for (std::uint64_t i = 0; i < num_scenes; ++i) {
    const DrawnFlows scene = draw_flows(property_seed() + i, false);
    INFO("scene " << property_seed() + i);
    const Outcome outcome = run(scene, {.num_owners = kDrawnOwners});
    if (!outcome.stopped.empty()) continue;
    std::int64_t delays = 0;
    for (const auto& [flow, delay] : outcome.delays) {
      const FlowDemand& demand = scene.flows[static_cast<std::size_t>(flow)].demand;
      CHECK(delay >= 0);
      const std::int64_t start = scene.flows[static_cast<std::size_t>(flow)].start.picoseconds();
      const auto alone =
          static_cast<std::int64_t>((2 * demand.work + demand.rate_cap) / (2 * demand.rate_cap));
      const std::int64_t took = outcome.ends.at(flow) - start - demand.latency.picoseconds();
      CHECK(delay == took - (demand.work > 0 ? alone : 0));
      delays += delay;
    }
    CHECK(std::accumulate(outcome.charged.begin(), outcome.charged.end(), Int128{0}) == delays);
    for (LinkId link = 0; link < scene.links.size(); ++link) {
      std::int64_t bytes = 0;
      Int128 work = 0;
      Int128 slack = 0;
      for (const DrawnFlow& flow : scene.flows) {
        for (const CrossedLink& use : flow.demand.links) {
          if (use.link != link) continue;
          bytes += use.bytes;
          const std::int64_t coefficient = use.usage * use.weight;
          work += coefficient * flow.demand.work;
          // The end is rounded: up to half a picosecond at the last rate.
          slack += coefficient * Int128{flow.demand.rate_cap} / 2;
        }
      }
      // A load is counted in whole units: less than one is lost in each picosecond.
      const std::int64_t last = last_of(outcome.ends);
      const Int128 busy = outcome.totals[link].busy << 16U;
      CHECK(outcome.totals[link].bytes == bytes);
      CHECK(busy <= work + slack);
      CHECK(busy >= work - slack - (Int128{last} << 16U));
    }
  }
}

TEST_CASE("a link's peak load and full time") {
  const auto network = run_owned(1, {{{.size = 0.5, .links = {0}, .start = 1, .cap = 0.5}, 0},
                                     {{.size = 1.625, .links = {0}, .cap = 0.75}, 1}});
  // From 1 to 2 both want 5/4; they get half each. Then 3/8 are left of the second.
  const LinkTotals totals = network->totals(0);
  CHECK(totals.peak == cards(1));
  CHECK(totals.full == seconds(1));
  CHECK(totals.busy == work_of(kCard / 8 * 17));
  CHECK(network->now() == seconds(5, 2));
}

TEST_CASE("remainders go to the largest fractions, then to the first") {
  CHECK(split(10, {1, 1, 1}) == std::vector<std::int64_t>{4, 3, 3});
  CHECK(split(10, {3, 3, 1}) == std::vector<std::int64_t>{4, 4, 2});
  CHECK(split(7, {5, 0, 9}) == std::vector<std::int64_t>{3, 0, 4});
  CHECK(split(0, {5, 9}) == std::vector<std::int64_t>{0, 0});
}

}  // namespace shardsim::test
