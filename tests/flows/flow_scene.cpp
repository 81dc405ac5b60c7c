#include "tests/flows/flow_scene.hpp"

#include <string>

namespace shardsim::test {

FlowRate cards(double number) { return rate_of(number * static_cast<double>(kCard)); }

Time seconds(std::int64_t count, std::int64_t parts) {
  constexpr std::int64_t kSecond = 1'000'000'000'000;
  return Time::from_picoseconds((2 * count * kSecond + parts) / (2 * parts));
}

std::vector<FlowOptions> every_option() {
  std::vector<FlowOptions> options;
  for (const RateSolver solver : {RateSolver::growing, RateSolver::component, RateSolver::whole}) {
    for (const bool fits_check : {true, false}) {
      options.push_back({.solver = solver, .fits_check = fits_check, .num_owners = 2});
    }
  }
  return options;
}

FlowDemand demand_of(const SceneFlow& flow) {
  FlowDemand demand;
  demand.rate_cap = cards(flow.cap);
  demand.work = work_of(static_cast<std::int64_t>(flow.size * static_cast<double>(kCard)));
  demand.latency = Time::from_seconds(flow.latency);
  for (const LinkId link : flow.links) {
    demand.links.push_back(
        {.link = link, .usage = flow.times * kWholeUsage, .weight = flow.weight});
  }
  return demand;
}

std::vector<Time> ends_of(const FlowScene& scene, FlowOptions options) {
  FlowNetwork network(options);
  for (std::size_t i = 0; i < scene.links.size(); ++i) {
    network.add_link("link" + std::to_string(i), cards(scene.links[i]));
  }
  for (const SceneChange& change : scene.changes) {
    network.change_capacity(change.link, Time::from_seconds(change.at), cards(change.capacity));
  }
  const auto start = [&](std::size_t index, Time from) {
    const SceneFlow& flow = scene.flows[index];
    network.start(FlowId(static_cast<std::int64_t>(index)), from + Time::from_seconds(flow.start),
                  demand_of(flow));
  };
  for (std::size_t i = 0; i < scene.flows.size(); ++i) {
    if (!scene.flows[i].after) start(i, Time());
  }
  std::vector<Time> ends(scene.flows.size());
  drive(network, [&](const EndedFlow& ended) {
    const auto index = static_cast<std::size_t>(ended.id);
    ends[index] = network.now();
    for (std::size_t i = 0; i < scene.flows.size(); ++i) {
      if (scene.flows[i].after == index) start(i, network.now());
    }
  });
  return ends;
}

}  // namespace shardsim::test
