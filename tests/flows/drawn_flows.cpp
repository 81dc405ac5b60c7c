#include "tests/flows/drawn_flows.hpp"

#include <algorithm>
#include <stdexcept>

#include "sim/kernel/error.hpp"
#include "sim/kernel/random.hpp"

#include "tests/units.hpp"

namespace shardsim::test {
namespace {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : draws_(seed) {}
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(draws_.next() % static_cast<std::uint64_t>(bound));
  }
  bool once_in(std::int64_t times) { return below(times) == 0; }

 private:
  DrawSequence draws_;
};

FlowRate drawn_capacity(Dice& dice) {
  if (dice.once_in(10)) return 0;
  return dice.once_in(12) ? 1 + dice.below(4) : 8 + dice.below(40);
}

FlowDemand drawn_demand(Dice& dice, std::size_t num_links, bool folded) {
  constexpr std::int64_t kUsages[] = {kWholeUsage,     kWholeUsage,     2 * kWholeUsage,
                                      kWholeUsage / 2, kWholeUsage / 3, kWholeUsage / 8};
  FlowDemand demand;
  demand.rate_cap = dice.once_in(3) ? 1000 : 1 + dice.below(14);
  demand.work = dice.once_in(20) ? 0 : 1 + dice.below(300);
  demand.latency = ps(dice.once_in(3) ? dice.below(15) : 0);
  demand.owner = static_cast<std::uint32_t>(dice.below(kDrawnOwners));
  const std::int64_t weight = dice.once_in(2) ? 1 : 1 + dice.below(4);
  for (LinkId link = 0; link < num_links; ++link) {
    if (!dice.once_in(2)) continue;
    demand.links.push_back({.link = link,
                            .usage = kUsages[dice.below(6)],
                            .weight = folded ? weight : 1 + dice.below(3),
                            .bytes = dice.below(100)});
  }
  // A demand's links come in any order.
  if (dice.once_in(2)) std::reverse(demand.links.begin(), demand.links.end());
  return demand;
}

}  // namespace

DrawnFlows draw_flows(std::uint64_t seed, bool folded) {
  Dice dice(seed);
  DrawnFlows scene;
  const std::int64_t num_links = 1 + dice.below(7);
  for (std::int64_t i = 0; i < num_links; ++i) scene.links.push_back(drawn_capacity(dice));
  const std::int64_t num_flows = 1 + dice.below(14);
  for (std::int64_t i = 0; i < num_flows; ++i) {
    scene.flows.push_back(
        {ps(dice.once_in(2) ? 0 : dice.below(60)), drawn_demand(dice, scene.links.size(), folded)});
  }
  const std::int64_t num_changes = dice.below(6);
  for (std::int64_t i = 0; i < num_changes; ++i) {
    scene.changes.push_back(
        {static_cast<LinkId>(dice.below(num_links)), ps(dice.below(80)), drawn_capacity(dice)});
  }
  return scene;
}

void build(const DrawnFlows& scene, FlowNetwork& network) {
  for (std::size_t i = 0; i < scene.links.size(); ++i) {
    network.add_link("link" + std::to_string(i), scene.links[i]);
  }
  for (const DrawnChange& change : scene.changes) {
    network.change_capacity(change.link, change.at, change.capacity);
  }
  for (std::size_t i = 0; i < scene.flows.size(); ++i) {
    network.start(FlowId(static_cast<std::int64_t>(i)), scene.flows[i].start,
                  scene.flows[i].demand);
  }
}

bool Outcome::operator==(const Outcome& other) const {
  const auto same = [](const LinkTotals& a, const LinkTotals& b) {
    return a.bytes == b.bytes && a.busy == b.busy && a.peak == b.peak && a.full == b.full;
  };
  return ends == other.ends && delays == other.delays && charged == other.charged &&
         stopped == other.stopped &&
         std::equal(totals.begin(), totals.end(), other.totals.begin(), other.totals.end(), same);
}

Outcome run(FlowNetwork& network) {
  Outcome outcome;
  std::vector<EndedFlow> ended;
  try {
    while (const auto at = network.next()) {
      ended.clear();
      network.advance(*at, ended);
      for (const EndedFlow& flow : ended) {
        outcome.ends[static_cast<std::int64_t>(flow.id)] = network.now().picoseconds();
        outcome.delays[static_cast<std::int64_t>(flow.id)] = flow.delay.picoseconds();
      }
    }
    for (const std::string& name : network.stalled_links()) outcome.stopped += name + " ";
  } catch (const LimitError& error) {
    outcome.stopped = error.what();
    return outcome;
  }
  const std::uint32_t num_owners = network.contention().num_owners();
  for (std::uint32_t slowed = 0; slowed < num_owners; ++slowed) {
    for (std::uint32_t by = 0; by <= num_owners; ++by) {
      outcome.charged.push_back(network.contention().charged(slowed, by));
    }
  }
  for (LinkId i = 0; i < network.num_links(); ++i) outcome.totals.push_back(network.totals(i));
  return outcome;
}

Outcome run(const DrawnFlows& scene, FlowOptions options) {
  FlowNetwork network(options);
  build(scene, network);
  return run(network);
}

std::vector<FlowView> rates_by_definition(const DrawnFlows& scene,
                                          const std::vector<std::int64_t>& active,
                                          const std::vector<FlowRate>& capacities) {
  std::vector<FlowView> views;
  std::vector<bool> frozen(active.size(), false);
  const auto demand = [&](std::size_t i) -> const FlowDemand& {
    return scene.flows[static_cast<std::size_t>(active[i])].demand;
  };
  const auto coefficient = [&](std::size_t i, LinkId link) {
    for (const CrossedLink& use : demand(i).links) {
      if (use.link == link) return use.usage * use.weight;
    }
    return std::int64_t{0};
  };
  std::size_t num_left = active.size();
  for (const std::int64_t id : active) views.push_back({.id = FlowId(id)});
  const auto freeze = [&](std::size_t i, FlowRate level, LinkId link) {
    views[i].rate = level;
    views[i].bottleneck = std::min(views[i].bottleneck, link);
    num_left -= frozen[i] ? 0 : 1;
    frozen[i] = true;
  };
  for (std::size_t i = 0; i < active.size(); ++i) {
    for (LinkId link = 0; link < capacities.size(); ++link) {
      if (capacities[link] == 0 && coefficient(i, link) > 0) freeze(i, 0, link);
    }
  }
  FlowRate level = 0;
  while (num_left > 0) {
    for (std::size_t i = 0; i < active.size(); ++i) {
      if (!frozen[i] && demand(i).rate_cap == level) freeze(i, level, kNoLink);
    }
    const std::vector<bool> before = frozen;
    for (LinkId link = 0; link < capacities.size(); ++link) {
      std::int64_t load = 0;
      for (std::size_t i = 0; i < active.size(); ++i) {
        load += coefficient(i, link) * (before[i] ? views[i].rate : level + 1);
      }
      if (load <= capacities[link] * kWholeUsage) continue;
      for (std::size_t i = 0; i < active.size(); ++i) {
        if (before[i] || coefficient(i, link) == 0) continue;
        if (level == 0) throw std::runtime_error("share");
        freeze(i, level, link);
      }
    }
    ++level;
  }
  return views;
}

}  // namespace shardsim::test
