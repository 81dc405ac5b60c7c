#include "tests/flows/leaf_traffic.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/sample.hpp"

// Large traffic: ends that SimGrid 3.32 recorded, to its nine printed decimals, and the local test
// of fairness after each solve.
namespace shardsim::test {
namespace {

void check_recorded(const LeafTraffic& traffic, FlowOptions options = {}) {
  FlowNetwork network(options);
  INFO(traffic.num_flows << " flows");
  CHECK(std::abs(run_leaf_traffic(network, traffic) - traffic.end_s) < 1e-9);
}

constexpr LeafTraffic kSmallRandom{Traffic::random, 1000, 1024, 0.006017326};

// All flows of this traffic use whole connections, so loads are sums of rates.
void check_fairness(FlowNetwork& network, const std::map<FlowId, std::vector<LinkId>>& routes) {
  const FlowRate port = rate_of(50e9);
  const LinkId first_uplink = 2 * 1024;
  std::vector<FlowRate> load(network.num_links());
  std::vector<FlowRate> top(network.num_links());
  std::vector<std::int64_t> at_top(network.num_links());
  const std::vector<FlowView> flows = network.flows();
  for (const FlowView& flow : flows) {
    for (const LinkId link : routes.at(flow.id)) {
      load[link] += flow.rate;
      top[link] = std::max(top[link], flow.rate);
    }
  }
  for (const FlowView& flow : flows) {
    for (const LinkId link : routes.at(flow.id)) at_top[link] += flow.rate == top[link] ? 1 : 0;
  }
  const auto capacity = [&](LinkId link) { return link < first_uplink ? port : 8 * port; };
  for (LinkId link = 0; link < network.num_links(); ++link) CHECK(load[link] <= capacity(link));
  for (const FlowView& flow : flows) {
    const std::vector<LinkId>& route = routes.at(flow.id);
    const bool held = std::any_of(route.begin(), route.end(), [&](LinkId link) {
      return flow.rate == top[link] && capacity(link) - load[link] < at_top[link];
    });
    CHECK((flow.rate == port || held));
  }
}

}  // namespace

TEST_CASE("recorded ends of traffic within nodes") {
  check_recorded({Traffic::local, 1000, 1024, 0.001999676});
  check_recorded({Traffic::local, 10000, 2048, 0.008795653});
  if (long_run()) check_recorded({Traffic::local, 98304, 16384, 0.011206189});
}

TEST_CASE("recorded ends of random traffic") {
  check_recorded(kSmallRandom);
  check_recorded(kSmallRandom, {.solver = RateSolver::component, .fits_check = false});
  if (long_run()) check_recorded({Traffic::random, 10000, 1024, 0.045697938});
}

TEST_CASE("recorded ends of random traffic of equal sizes") {
  check_recorded({Traffic::equal, 1000, 1024, 0.005});
  check_recorded({Traffic::equal, 10000, 1024, 0.041625});
}

TEST_CASE("equal flows end together, and each instant is solved once") {
  FlowNetwork network;
  const LeafTraffic traffic{Traffic::equal, 1000, 1024, 0.005};
  start_leaf_traffic(network, traffic);
  std::vector<EndedFlow> ended;
  std::int64_t num_instants = 0;
  while (const auto at = network.next()) {
    network.advance(*at, ended);
    ++num_instants;
  }
  CHECK(num_instants == 71);
  CHECK(network.num_solves() <= num_instants);
}

TEST_CASE("after each solve a flow is at its cap, or on a full link where none is faster") {
  FlowNetwork network;
  const auto demands = leaf_demands(kSmallRandom);
  std::map<FlowId, std::vector<LinkId>> routes;
  for (std::size_t i = 0; i < demands.size(); ++i) {
    std::vector<LinkId>& route = routes[FlowId(static_cast<std::int64_t>(i))];
    for (const CrossedLink& use : demands[i].links) route.push_back(use.link);
  }
  start_leaf_traffic(network, kSmallRandom);
  const int every = long_run() ? 1 : 25;
  std::vector<EndedFlow> ended;
  for (int i = 0; const auto at = network.next(); ++i) {
    if (i % every == 0) check_fairness(network, routes);
    network.advance(*at, ended);
  }
  CHECK(ended.size() == kSmallRandom.num_flows);
}

}  // namespace shardsim::test
