#include "sim/app/faults/faults_of.hpp"

#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "sim/app/plan_of.hpp"

namespace shardsim {

namespace {

constexpr double kSecondsPerUs = 1e-6;

bool hits(const StragglerSpec& straggler, int rank, int node, int stage) {
  if (straggler.rank != kNotChosen) return straggler.rank == rank;
  if (straggler.node != kNotChosen) return straggler.node == node;
  return straggler.stage == stage;
}

std::vector<double> slowdown_of_ranks(const Scenario& scenario) {
  if (scenario.faults.stragglers.empty()) return {};
  const MeshShape mesh = mesh_shape_of(scenario.parallelism);
  const auto gpus = static_cast<int>(scenario.system.gpus_per_node);
  std::vector<double> slowdown(static_cast<std::size_t>(mesh.size()), 1.0);
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const int stage = mesh.place_of(rank).pp;
    for (const StragglerSpec& straggler : scenario.faults.stragglers) {
      if (!hits(straggler, rank, rank / gpus, stage)) continue;
      slowdown[static_cast<std::size_t>(rank)] *= straggler.slowdown;
    }
  }
  return slowdown;
}

LinkTier link_tier_of(const LinkPlaceSpec& place) {
  return place.is_inside() ? LinkTier::intra_node : LinkTier::inter_node;
}

int faulty_node(const LinkPlaceSpec& place) {
  return place.node == kNotChosen ? kAllNodes : static_cast<int>(place.node);
}

}  // namespace

std::shared_ptr<const MachineFaults> faults_of(const Scenario& scenario) {
  const FaultSpec& spec = scenario.faults;
  if (!spec.slows_steps()) return nullptr;
  auto faults = std::make_shared<MachineFaults>();
  faults->slowdown = slowdown_of_ranks(scenario);
  for (const SlowLinkSpec& link : spec.slow_links) {
    faults->slow_links.push_back({.tier = link_tier_of(link.place),
                                  .node = faulty_node(link.place),
                                  .bandwidth_factor = link.bandwidth_factor,
                                  .added_latency_s = link.added_latency_us * kSecondsPerUs});
  }
  for (const FlappingLinkSpec& link : spec.flapping_links) {
    faults->flapping_links.push_back({.tier = link_tier_of(link.place),
                                      .node = faulty_node(link.place),
                                      .down = Time::from_seconds(link.down_s),
                                      .period = Time::from_seconds(link.period_s),
                                      .phase = Time::from_seconds(link.phase_s)});
  }
  return faults;
}

std::string faults_in_words(const FaultSpec& faults) {
  std::string words;
  const auto add = [&words](std::size_t count, const char* name) {
    if (count == 0) return;
    words +=
        fmt::format("{}{} {}{}", words.empty() ? "" : ", ", count, name, count == 1 ? "" : "s");
  };
  add(faults.stragglers.size(), "straggler");
  add(faults.slow_links.size(), "slow link");
  add(faults.flapping_links.size(), "flapping link");
  return words;
}

}  // namespace shardsim
