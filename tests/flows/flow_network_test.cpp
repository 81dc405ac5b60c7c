#include "sim/hardware/flows/flow_network.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"
#include "sim/kernel/random.hpp"

#include "tests/flows/drawn_flows.hpp"
#include "tests/flows/flow_scene.hpp"
#include "tests/property/check_property.hpp"
#include "tests/units.hpp"

// A network at its limits, and asked in the wrong order.
namespace shardsim::test {
namespace {

constexpr FlowRate kHighest = std::numeric_limits<FlowRate>::max();

FlowDemand demand_over(std::vector<CrossedLink> links, FlowRate cap, Int128 work) {
  FlowDemand demand;
  demand.links = std::move(links);
  demand.rate_cap = cap;
  demand.work = work;
  return demand;
}

template <class Call>
std::string code_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return "none";
}

// Capacities and sizes over their whole range: uniform in the number of bits.
class WideDraws {
 public:
  explicit WideDraws(std::uint64_t seed) : draws_(seed) {}
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(draws_.next() % static_cast<std::uint64_t>(bound));
  }
  std::int64_t wide(std::int64_t most) {
    const std::int64_t bits = 1 + below(63);
    return 1 + below(bits < 63 ? std::min(most, (std::int64_t{1} << bits) - 1) : most);
  }

 private:
  DrawSequence draws_;
};

DrawnFlows draw_wide(std::uint64_t seed) {
  WideDraws draws(seed);
  DrawnFlows scene;
  const FlowRate highest = rate_of(9e15);
  const std::int64_t num_links = 1 + draws.below(5);
  // From 1 kB/s on.
  for (std::int64_t i = 0; i < num_links; ++i) {
    scene.links.push_back(std::max<FlowRate>(1000 * kRateUnitsPerByte, draws.wide(highest)));
  }
  const std::int64_t num_flows = 1 + draws.below(8);
  for (std::int64_t i = 0; i < num_flows; ++i) {
    FlowDemand demand = demand_over({}, draws.wide(highest), work_of(draws.wide(1LL << 53U)));
    demand.owner = static_cast<std::uint32_t>(draws.below(kDrawnOwners));
    for (LinkId link = 0; link < scene.links.size(); ++link) {
      if (draws.below(2) == 0) continue;
      const std::int64_t connections = std::min<std::int64_t>(draws.wide(1LL << 20U), 1LL << 20U);
      demand.links.push_back(
          {.link = link, .usage = draws.wide(kWholeUsage), .weight = connections});
    }
    scene.flows.push_back({ps(draws.wide(1'000'000'000'000)), demand});
  }
  return scene;
}

}  // namespace

TEST_CASE("a flow without links goes at its cap, and one without work ends at once") {
  FlowNetwork network;
  network.add_link("down", 0);
  network.start(FlowId{2}, ps(5), demand_over({}, 10, 100));
  network.start(FlowId{1}, ps(5), demand_over({{.link = 0}}, 10, 0));
  std::vector<EndedFlow> ended;
  REQUIRE(network.next() == ps(5));
  network.advance(ps(5), ended);
  CHECK(ended.empty());
  REQUIRE(network.next() == ps(5));
  network.advance(ps(5), ended);
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].id == FlowId{1});
  CHECK(network.next() == ps(15));
}

TEST_CASE("an end is rounded to the nearest picosecond") {
  for (const auto& [work, end] : {std::pair{24, 2}, {25, 3}, {26, 3}, {4, 0}, {5, 1}}) {
    FlowNetwork network;
    network.start(FlowId{0}, Time(), demand_over({}, 10, work));
    CHECK(network.next() == ps(end));
  }
}

TEST_CASE("flows that end together are reported by rising id") {
  FlowNetwork network;
  for (const std::int64_t id : {5, 3, 9, 1}) {
    network.start(FlowId{id}, Time(), demand_over({}, 1, 7));
  }
  std::vector<EndedFlow> ended;
  REQUIRE(network.next() == ps(7));
  network.advance(ps(7), ended);
  std::vector<FlowId> ids;
  for (const EndedFlow& flow : ended) ids.push_back(flow.id);
  CHECK(ids == std::vector<FlowId>{FlowId{1}, FlowId{3}, FlowId{5}, FlowId{9}});
  CHECK_FALSE(network.next());
  CHECK_FALSE(network.stalled());
}

TEST_CASE("a flow that ends makes room before one of the same instant starts") {
  // The first flow ends at 3 with a third of its last picosecond's work left.
  FlowNetwork network;
  network.add_link("link", 9);
  network.start(FlowId{0}, Time(), demand_over({{.link = 0}}, 9, 28));
  network.start(FlowId{1}, ps(3), demand_over({{.link = 0}}, 9, 27));
  std::vector<EndedFlow> ended;
  while (const auto at = network.next()) network.advance(*at, ended);
  REQUIRE(ended.size() == 2);
  CHECK(ended[0].id == FlowId{0});
  CHECK(ended[0].delay == Time());
  CHECK(network.now() == ps(6));
  CHECK(network.num_solves() == 0);
}

TEST_CASE("a flow that fits needs no solve, also where others were slowed before") {
  FlowNetwork network;
  network.add_link("link", 10);
  const auto start = [&](std::int64_t id, Time at, FlowRate cap) {
    network.start(FlowId{id}, at, demand_over({{.link = 0}}, cap, 50));
  };
  start(0, Time(), 10);
  start(1, Time(), 10);
  std::vector<EndedFlow> ended;
  REQUIRE(network.next() == ps(10));
  CHECK(network.num_solves() == 1);
  network.advance(ps(10), ended);
  REQUIRE(ended.size() == 2);
  start(2, ps(11), 5);
  start(3, ps(12), 5);  // They fill the link.
  while (const auto at = network.next()) network.advance(*at, ended);
  CHECK(network.now() == ps(22));
  CHECK(network.num_solves() == 1);
}

TEST_CASE("the lowest of several capacities at one time holds") {
  for (const bool lowest_first : {true, false}) {
    FlowNetwork network;
    network.add_link("link", 10);
    network.change_capacity(0, ps(10), lowest_first ? 2 : 5);
    network.change_capacity(0, ps(10), lowest_first ? 5 : 2);
    network.start(FlowId{0}, Time(), demand_over({{.link = 0}}, 10, 120));
    REQUIRE(network.next() == ps(10));
    std::vector<EndedFlow> ended;
    network.advance(ps(10), ended);
    CHECK(network.next() == ps(20));
  }
}

TEST_CASE("flows over links that are down for ever stall, and the links are named") {
  FlowNetwork network;
  network.add_link("leaf0/up0", 10);
  network.add_link("leaf0/up1", 10);
  network.change_capacity(1, ps(5), 0);
  network.start(FlowId{0}, Time(), demand_over({{.link = 0}, {.link = 1}}, 10, 100));
  network.start(FlowId{1}, Time(), demand_over({{.link = 0}}, 10, 100));
  CHECK(network.next() == ps(5));
  CHECK_FALSE(network.stalled());
  std::vector<EndedFlow> ended;
  while (const auto at = network.next()) network.advance(*at, ended);
  CHECK(ended.size() == 1);
  CHECK(network.now() == ps(13));  // 25 done by 5, then alone.
  CHECK(network.stalled());
  CHECK(network.stalled_links() == std::vector<std::string>{"leaf0/up1"});
  // A change to come ends the stall.
  network.change_capacity(1, ps(20), 75);
  CHECK(network.next() == ps(20));
  CHECK_FALSE(network.stalled());
  network.advance(ps(20), ended);
  CHECK(network.next() == ps(28));  // 75 are left, at its cap.
}

TEST_CASE("a share below one unit is an error that names the link") {
  FlowNetwork network;
  network.add_link("fast", 1000);
  network.add_link("slow", 2);
  for (std::int64_t i = 0; i < 3; ++i) {
    network.start(FlowId{i}, Time(), demand_over({{.link = 0}, {.link = 1}}, 10, 100));
  }
  std::string message;
  try {
    (void)network.next();
  } catch (const LimitError& error) {
    CHECK(error.code() == "E0321");
    message = error.what();
  }
  CHECK(message.find("link slow") != std::string::npos);
}

TEST_CASE("capacities, sizes and connections over their whole range give a result or a limit") {
  const std::uint64_t num_scenes = long_run() ? 20'000 : 1000;
  int num_finished = 0;
  for (std::uint64_t i = 0; i < num_scenes; ++i) {
    const DrawnFlows scene = draw_wide(property_seed() + i);
    INFO("scene " << property_seed() + i);
    const Outcome outcome = run(scene, {.num_owners = kDrawnOwners});
    const Outcome reference =
        run(scene, {.solver = RateSolver::whole, .fits_check = false, .num_owners = kDrawnOwners});
    CHECK(outcome == reference);
    if (!outcome.stopped.empty()) {
      // No stall: the links are up.
      const bool share = outcome.stopped.find("shared by so many flows") != std::string::npos;
      const bool clock = outcome.stopped.find("106 days") != std::string::npos;
      CHECK((share || clock));
      continue;
    }
    ++num_finished;
    CHECK(outcome.ends.size() == scene.flows.size());
    Int128 balance = 0;
    for (const auto& [flow, delay] : outcome.delays) {
      CHECK(delay >= 0);
      balance += delay;
    }
    for (const Int128 charged : outcome.charged) balance -= charged;
    CHECK(balance == 0);
  }
  CHECK(num_finished > static_cast<int>(num_scenes / 10));
}

TEST_CASE("what a network cannot do is refused with a code") {
  FlowNetwork network({.num_owners = 2});
  network.add_link("link", 10);
  const FlowDemand fine = demand_over({{.link = 0}}, 10, 100);
  const auto start = [&](const FlowDemand& demand, Time at) {
    return code_of([&] { network.start(FlowId{0}, at, demand); });
  };
  const auto with = [&](auto change) {
    FlowDemand demand = fine;
    change(demand);
    return start(demand, Time());
  };
  CHECK(with([](FlowDemand& demand) { demand.rate_cap = 0; }) == "E0323");
  CHECK(with([](FlowDemand& demand) { demand.work = -1; }) == "E0323");
  CHECK(with([](FlowDemand& demand) { demand.work = kLargestWork + 1; }) == "E0323");
  CHECK(with([](FlowDemand& demand) { demand.latency = ps(-1); }) == "E0323");
  CHECK(with([](FlowDemand& demand) { demand.owner = 2; }) == "E0323");
  CHECK(with([](FlowDemand& demand) { demand.links[0].link = 1; }) == "E0323");
  CHECK(with([](FlowDemand& demand) { demand.links[0].usage = 0; }) == "E0323");
  CHECK(with([](FlowDemand& demand) { demand.links[0].weight = 0; }) == "E0323");
  CHECK(with([](FlowDemand& demand) { demand.links[0].usage = kLargestShare + 1; }) == "E0323");
  CHECK(with([](FlowDemand& demand) { demand.links.push_back({.link = 0}); }) == "E0323");
  CHECK(with([](FlowDemand& demand) { demand.latency = ps(kHighest); }) == "none");
  CHECK(start(fine, ps(3)) == "none");
  std::vector<EndedFlow> ended;
  network.advance(ps(3), ended);
  CHECK(start(fine, ps(2)) == "E0323");
  CHECK(code_of([&] { network.change_capacity(0, ps(2), 1); }) == "E0323");
  CHECK(code_of([] { (void)rate_of(9.1e15); }) == "E0322");
  CHECK(code_of([] { (void)rate_of(-1); }) == "E0322");
  CHECK(rate_of(9e15) == 9'216'000'000'000'000'000);
}

}  // namespace shardsim::test
