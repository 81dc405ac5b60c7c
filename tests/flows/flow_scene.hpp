#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/hardware/flows/flow_network.hpp"

// Flows on links that a test writes down, in cards: a size of 1 is 5e10 bytes, a capacity of 1 is
// 5e10 bytes/s, so a size of 1 takes a second on a link of 1.
namespace shardsim::test {

inline constexpr std::int64_t kCard = 50'000'000'000;

/// A capacity or rate in cards.
[[nodiscard]] FlowRate cards(double number);
/// `count / parts` seconds to the nearest picosecond.
[[nodiscard]] Time seconds(std::int64_t count, std::int64_t parts = 1);
/// All solvers, with and without the fits check.
[[nodiscard]] std::vector<FlowOptions> every_option();

struct SceneFlow {
  double size = 0;
  std::vector<LinkId> links;
  double start = 0;
  double cap = 1000;
  double latency = 0;
  /// Counts for each of the links.
  std::int64_t weight = 1;
  std::int64_t times = 1;  ///< How often it crosses each link.
  /// If set, the flow starts `start` after that flow has ended.
  std::optional<std::size_t> after{};
};

struct SceneChange {
  LinkId link = 0;
  double at = 0;
  double capacity = 0;
};

struct FlowScene {
  std::vector<double> links;
  std::vector<SceneFlow> flows;
  std::vector<SceneChange> changes{};
};

[[nodiscard]] FlowDemand demand_of(const SceneFlow& flow);
/// The end of each flow, in the order of the scene.
[[nodiscard]] std::vector<Time> ends_of(const FlowScene& scene, FlowOptions options = {});
/// Drives a network until nothing is to come. Calls `then` for each flow that ends.
template <class Then>
void drive(FlowNetwork& network, const Then& then) {
  std::vector<EndedFlow> ended;
  while (const std::optional<Time> at = network.next()) {
    ended.clear();
    network.advance(*at, ended);
    for (const EndedFlow& flow : ended) then(flow);
  }
}

}  // namespace shardsim::test
