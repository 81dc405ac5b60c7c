#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include <boost/multiprecision/cpp_int.hpp>
#include <catch2/catch.hpp>

#include "sim/kernel/random.hpp"

#include "sim/hardware/flows/flow_network.hpp"

#include "tests/property/check_property.hpp"
#include "tests/units.hpp"

// Ends against a solver that knows no integers but the clock's: rates and work are fractions, and
// each end is rounded to the nearest picosecond.
namespace shardsim::test {
namespace {

using Fraction = boost::multiprecision::cpp_rational;
using Whole = boost::multiprecision::cpp_int;

struct FractionFlow {
  std::map<LinkId, std::int64_t> uses;  // Usage times weight.
  Fraction cap;
  Fraction left;
  std::int64_t begins = 0;
  std::optional<std::int64_t> end{};
  Fraction rate{};
};

struct FractionChange {
  LinkId link;
  std::int64_t at;
  Fraction capacity;
};

// One scene, as both solvers see it.
struct FractionScene {
  std::vector<Fraction> links;
  std::vector<FractionFlow> flows;
  std::vector<FractionChange> changes;
};

void fill_fractions(FractionScene& scene, std::int64_t now) {
  std::vector<FractionFlow*> rising;
  for (FractionFlow& flow : scene.flows) {
    if (!flow.end && flow.begins <= now) rising.push_back(&flow);
  }
  std::vector<Fraction> left = scene.links;
  while (!rising.empty()) {
    std::vector<Fraction> sums(left.size());
    Fraction level = rising.front()->cap;
    for (const FractionFlow* flow : rising) {
      level = std::min(level, flow->cap);
      for (const auto& [link, use] : flow->uses) sums[link] += use;
    }
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (sums[i] > 0) level = std::min<Fraction>(level, left[i] / sums[i]);
    }
    std::vector<bool> stops(left.size());
    for (std::size_t i = 0; i < left.size(); ++i)
      stops[i] = sums[i] > 0 && left[i] / sums[i] == level;
    std::vector<FractionFlow*> others;
    for (FractionFlow* flow : rising) {
      bool frozen = flow->cap == level;
      for (const auto& [link, use] : flow->uses) frozen = frozen || stops[link];
      if (!frozen) {
        others.push_back(flow);
        continue;
      }
      flow->rate = level;
      for (const auto& [link, use] : flow->uses) left[link] -= use * level;
    }
    rising = others;
  }
}

// Half a picosecond is rounded up.
std::int64_t nearest(const Fraction& time) {
  const Fraction moved = time + Fraction(1, 2);
  return static_cast<std::int64_t>(Whole(numerator(moved) / denominator(moved)));
}

std::vector<std::int64_t> fraction_ends(FractionScene scene) {
  std::int64_t now = 0;
  while (true) {
    for (const FractionChange& change : scene.changes) {
      if (change.at == now) scene.links[change.link] = change.capacity;
    }
    fill_fractions(scene, now);
    std::optional<std::int64_t> next;
    const auto consider = [&next](std::int64_t at) { next = next ? std::min(*next, at) : at; };
    for (const FractionFlow& flow : scene.flows) {
      if (flow.begins > now) consider(flow.begins);
      if (!flow.end && flow.begins <= now && flow.rate > 0) {
        consider(now + nearest(flow.left / flow.rate));
      }
    }
    for (const FractionChange& change : scene.changes) {
      if (change.at > now) consider(change.at);
    }
    if (!next) break;
    for (FractionFlow& flow : scene.flows) {
      if (flow.end || flow.begins > now) continue;
      if (flow.rate > 0 && now + nearest(flow.left / flow.rate) == *next) flow.end = next;
      flow.left -= flow.rate * (*next - now);
    }
    now = *next;
  }
  std::vector<std::int64_t> ends;
  for (const FractionFlow& flow : scene.flows) ends.push_back(flow.end.value_or(-1));
  return ends;
}

std::vector<std::int64_t> network_ends(const FractionScene& scene) {
  FlowNetwork network;
  const auto whole = [](const Fraction& value) {
    REQUIRE(denominator(value) == 1);
    return static_cast<std::int64_t>(numerator(value));
  };
  for (const Fraction& link : scene.links) network.add_link("link", whole(link));
  for (const FractionChange& change : scene.changes) {
    network.change_capacity(change.link, ps(change.at), whole(change.capacity));
  }
  for (std::size_t i = 0; i < scene.flows.size(); ++i) {
    const FractionFlow& flow = scene.flows[i];
    FlowDemand demand;
    demand.rate_cap = whole(flow.cap);
    demand.work = static_cast<Int128>(Whole(numerator(flow.left)));
    // Half of the start is latency.
    demand.latency = ps(flow.begins / 2);
    for (const auto& [link, use] : flow.uses) demand.links.push_back({.link = link, .weight = use});
    network.start(FlowId(static_cast<std::int64_t>(i)), ps(flow.begins - flow.begins / 2), demand);
  }
  std::vector<std::int64_t> ends(scene.flows.size(), -1);
  std::vector<EndedFlow> ended;
  while (const auto at = network.next()) {
    ended.clear();
    network.advance(*at, ended);
    for (const EndedFlow& flow : ended) {
      ends[static_cast<std::size_t>(flow.id)] = at->picoseconds();
    }
  }
  return ends;
}

struct Shape {
  std::int64_t num_flows;
  std::int64_t most_uses;  // By one flow on one link.
  std::int64_t unit;       // Capacities are multiples.
  std::int64_t extra;      // Up to this much more, so that nothing divides.
};

FractionScene draw_scene(std::uint64_t seed, const Shape& shape) {
  DrawSequence draws(seed);
  const auto below = [&draws](std::int64_t bound) {
    return static_cast<std::int64_t>(draws.next() % static_cast<std::uint64_t>(bound));
  };
  const auto capacity = [&] { return shape.unit * (1 + below(8)) + below(shape.extra + 1); };
  constexpr std::int64_t kMillisecond = 1'000'000'000;
  FractionScene scene;
  const std::int64_t num_links = 1 + below(4);
  for (std::int64_t i = 0; i < num_links; ++i) scene.links.emplace_back(capacity());
  const std::int64_t num_flows = 1 + below(shape.num_flows);
  for (std::int64_t i = 0; i < num_flows; ++i) {
    FractionFlow flow;
    flow.cap = below(2) == 0 ? Fraction(capacity()) : Fraction(8 * shape.unit + shape.extra);
    flow.left = Fraction(capacity()) * (1 + below(kMillisecond));
    flow.begins = below(3) == 0 ? below(kMillisecond) : 0;
    for (LinkId link = 0; link < scene.links.size(); ++link) {
      if (below(2) == 0) flow.uses[link] = 1 + below(shape.most_uses);
    }
    scene.flows.push_back(flow);
  }
  const std::int64_t num_changes = below(3);
  for (std::int64_t i = 0; i < num_changes; ++i) {
    scene.changes.push_back(
        {static_cast<LinkId>(below(num_links)), below(kMillisecond), Fraction(capacity())});
  }
  return scene;
}

}  // namespace

TEST_CASE("where all shares are whole, ends are those of fractions to the picosecond") {
  // A rate is a capacity divided by sums of uses, once for each flow at most.
  const Shape plain{6, 1, 60LL * 60 * 60 * 60 * 60 * 60, 0};            // Sums to 6.
  const Shape weighted{4, 3, 27720LL * 27720 * 27720 * 27720 / 16, 0};  // Sums to 12.
  const std::uint64_t num_scenes = long_run() ? 4000 : 200;
  for (std::uint64_t i = 0; i < num_scenes; ++i) {
    INFO("scene " << property_seed() + i);
    for (const Shape& shape : {plain, weighted}) {
      const FractionScene scene = draw_scene(property_seed() + i, shape);
      CHECK(network_ends(scene) == fraction_ends(scene));
    }
  }
}

TEST_CASE("where shares are rounded down, ends stay within picoseconds") {
  // Rates are wrong by 1e-13, so an end in milliseconds is wrong by 1 ps where the rounding turns.
  // Rates differ by a factor of 8 times 6, by which an end's error may grow for those that go on.
  constexpr std::int64_t kBound = 6 * 8 * 6;
  const Shape odd{6, 1, 51'200'000'000'000, 51'199'999'999'999};
  const std::uint64_t num_scenes = long_run() ? 4000 : 200;
  for (std::uint64_t i = 0; i < num_scenes; ++i) {
    INFO("scene " << property_seed() + i);
    const FractionScene scene = draw_scene(property_seed() + i, odd);
    const std::vector<std::int64_t> ends = network_ends(scene);
    const std::vector<std::int64_t> expected = fraction_ends(scene);
    for (std::size_t flow = 0; flow < ends.size(); ++flow) {
      CHECK(std::abs(ends[flow] - expected[flow]) <= kBound);
    }
  }
}

}  // namespace shardsim::test
