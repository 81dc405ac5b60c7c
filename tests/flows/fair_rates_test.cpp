#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "tests/flows/drawn_flows.hpp"
#include "tests/flows/flow_scene.hpp"
#include "tests/property/check_property.hpp"

// Rates on drawn states with ties: by the definition, with each solver, and in another order.
namespace shardsim::test {
namespace {

std::uint64_t num_drawn() { return long_run() ? 10'000 : 600; }

std::vector<FlowRate> capacities_at(const DrawnFlows& scene, Time now) {
  std::vector<FlowRate> capacities = scene.links;
  std::vector<Time> since(capacities.size(), Time::from_picoseconds(-1));
  for (const DrawnChange& change : scene.changes) {
    if (change.at > now || change.at < since[change.link]) continue;
    const bool again = change.at == since[change.link];
    capacities[change.link] =
        again ? std::min(capacities[change.link], change.capacity) : change.capacity;
    since[change.link] = change.at;
  }
  return capacities;
}

std::vector<std::int64_t> active_at(const DrawnFlows& scene, Time now,
                                    const std::set<std::int64_t>& ended) {
  std::vector<std::int64_t> active;
  for (std::size_t i = 0; i < scene.flows.size(); ++i) {
    const DrawnFlow& flow = scene.flows[i];
    const auto id = static_cast<std::int64_t>(i);
    if (flow.demand.work == 0 || ended.count(id) > 0) continue;
    if (flow.start + flow.demand.latency <= now) active.push_back(id);
  }
  return active;
}

std::string text_of(const std::vector<FlowView>& views) {
  std::string text;
  for (const FlowView& view : views) {
    text +=
        concat(static_cast<std::int64_t>(view.id), ": ", view.rate, " on ", view.bottleneck, "; ");
  }
  return text;
}

void check_against_definition(const DrawnFlows& scene, FlowOptions options) {
  FlowNetwork network(options);
  build(scene, network);
  std::set<std::int64_t> ended;
  std::vector<EndedFlow> now_ended;
  while (true) {
    const std::vector<std::int64_t> active = active_at(scene, network.now(), ended);
    std::optional<std::vector<FlowView>> expected;
    try {
      expected = rates_by_definition(scene, active, capacities_at(scene, network.now()));
    } catch (const std::runtime_error&) {
      CHECK_THROWS_AS(network.next(), LimitError);
      return;
    }
    const std::optional<Time> next = network.next();
    CHECK(text_of(network.flows()) == text_of(*expected));
    if (!next) return;
    now_ended.clear();
    network.advance(*next, now_ended);
    for (const EndedFlow& flow : now_ended) ended.insert(static_cast<std::int64_t>(flow.id));
  }
}

// Each flow of weight k as k flows. Their ids go on where the scene's end.
DrawnFlows unfolded(const DrawnFlows& scene, std::vector<std::size_t>& originals) {
  DrawnFlows all = scene;
  all.flows.clear();
  for (std::size_t i = 0; i < scene.flows.size(); ++i) {
    DrawnFlow flow = scene.flows[i];
    const std::int64_t copies = flow.demand.links.empty() ? 1 : flow.demand.links.front().weight;
    for (CrossedLink& use : flow.demand.links) use.weight = 1;
    for (std::int64_t copy = 0; copy < copies; ++copy) {
      all.flows.push_back(flow);
      originals.push_back(i);
    }
  }
  return all;
}

}  // namespace

TEST_CASE("rates are those of the definition, with each solver, at each event") {
  for (std::uint64_t i = 0; i < num_drawn(); ++i) {
    const DrawnFlows scene = draw_flows(property_seed() + i, false);
    INFO("scene " << property_seed() + i);
    for (const FlowOptions& options : every_option()) {
      FlowOptions with_owners = options;
      with_owners.num_owners = kDrawnOwners;
      check_against_definition(scene, with_owners);
    }
  }
}

TEST_CASE("all solvers give the same ends, delays, charges and counts") {
  for (std::uint64_t i = 0; i < num_drawn(); ++i) {
    const DrawnFlows scene = draw_flows(property_seed() + i, false);
    INFO("scene " << property_seed() + i);
    std::optional<Outcome> first;
    for (FlowOptions options : every_option()) {
      options.num_owners = kDrawnOwners;
      const Outcome outcome = run(scene, options);
      if (!first) first = outcome;
      CHECK(outcome.ends == first->ends);
      CHECK(outcome.delays == first->delays);
      CHECK(outcome.charged == first->charged);
      CHECK(outcome.stopped == first->stopped);
      CHECK(outcome == *first);
    }
  }
}

TEST_CASE("ends do not depend on the order of links, of flows and of what is told") {
  for (std::uint64_t i = 0; i < num_drawn(); ++i) {
    const DrawnFlows scene = draw_flows(property_seed() + i, false);
    INFO("scene " << property_seed() + i);
    DrawnFlows turned = scene;
    const auto last_link = static_cast<LinkId>(scene.links.size() - 1);
    std::reverse(turned.links.begin(), turned.links.end());
    std::reverse(turned.flows.begin(), turned.flows.end());
    std::reverse(turned.changes.begin(), turned.changes.end());
    for (DrawnFlow& flow : turned.flows) {
      for (CrossedLink& use : flow.demand.links) use.link = last_link - use.link;
    }
    for (DrawnChange& change : turned.changes) change.link = last_link - change.link;
    const Outcome expected = run(scene, {});
    const Outcome outcome = run(turned, {});
    CHECK(outcome.stopped.empty() == expected.stopped.empty());
    const auto last = static_cast<std::int64_t>(scene.flows.size() - 1);
    CHECK(outcome.ends.size() == expected.ends.size());
    for (const auto& [flow, end] : outcome.ends) CHECK(end == expected.ends.at(last - flow));
  }
}

TEST_CASE("a flow of weight k ends, waits and charges as k flows do") {
  for (std::uint64_t i = 0; i < num_drawn(); ++i) {
    const DrawnFlows scene = draw_flows(property_seed() + i, true);
    INFO("scene " << property_seed() + i);
    std::vector<std::size_t> originals;
    const DrawnFlows all = unfolded(scene, originals);
    const Outcome folded = run(scene, {});
    const Outcome explicitly = run(all, {});
    CHECK(explicitly.stopped == folded.stopped);
    for (std::size_t copy = 0; copy < originals.size(); ++copy) {
      const auto original = static_cast<std::int64_t>(originals[copy]);
      const auto id = static_cast<std::int64_t>(copy);
      CHECK(explicitly.ends.count(id) == folded.ends.count(original));
      if (folded.ends.count(original) == 0) continue;
      CHECK(explicitly.ends.at(id) == folded.ends.at(original));
      CHECK(explicitly.delays.at(id) == folded.delays.at(original));
    }
  }
}

}  // namespace shardsim::test
