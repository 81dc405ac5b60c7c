#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/hardware/flows/flow_network.hpp"

// Traffic whose end times SimGrid 3.32 recorded, for tests and the benchmark. GPUs have links of
// 50 GB/s in and out; leaves of 32 GPUs have uplinks of 400 GB/s up and down. All flows start at 0.
namespace shardsim::test {

enum class Traffic {
  local,   ///< Within groups of 8 GPUs, sizes drawn from 10 to 100 MB.
  random,  ///< To any GPU, the same sizes.
  equal,   ///< To any GPU, 50 MB each.
};

struct LeafTraffic {
  Traffic kind;
  std::uint32_t num_flows;
  std::uint32_t num_gpus;
  /// When the last flow ended in SimGrid, to its nine printed decimals.
  double end_s;
};

/// The generator that the recorded runs drew from.
class XorShift64 {
 public:
  std::uint64_t next() {
    state_ ^= state_ << 13U;
    state_ ^= state_ >> 7U;
    state_ ^= state_ << 17U;
    return state_;
  }

 private:
  std::uint64_t state_ = 88172645463325252U;
};

inline constexpr std::uint32_t kLeafGpus = 32;

/// Demands of the flows, in their order. Links: in and out of each GPU, then up and down each leaf.
inline std::vector<FlowDemand> leaf_demands(const LeafTraffic& traffic) {
  const std::uint32_t gpus = traffic.num_gpus;
  XorShift64 draws;
  std::vector<FlowDemand> demands(traffic.num_flows);
  for (std::uint32_t i = 0; i < traffic.num_flows; ++i) {
    const std::uint32_t from = i % gpus;
    std::uint32_t to = from / 8 * 8 + (from % 8 + 1 + i / gpus) % 8;
    if (traffic.kind != Traffic::local) {
      do {
        to = static_cast<std::uint32_t>(draws.next() % gpus);
      } while (to == from);
    }
    const bool drawn = traffic.kind != Traffic::equal;
    const std::uint64_t bytes = drawn ? 10'000'000 + draws.next() % 90'000'000 : 50'000'000;
    FlowDemand& demand = demands[i];
    demand.rate_cap = rate_of(50e9);
    demand.work = work_of(static_cast<std::int64_t>(bytes));
    demand.links = {{.link = 2 * from}, {.link = 2 * to + 1}};
    const std::uint32_t from_leaf = from / kLeafGpus;
    const std::uint32_t to_leaf = to / kLeafGpus;
    if (from_leaf == to_leaf) continue;
    demand.links.push_back({.link = 2 * gpus + 2 * from_leaf});
    demand.links.push_back({.link = 2 * gpus + 2 * to_leaf + 1});
  }
  return demands;
}

inline void start_leaf_traffic(FlowNetwork& network, const LeafTraffic& traffic) {
  const FlowRate port = rate_of(50e9);
  const std::uint32_t gpus = traffic.num_gpus;
  for (std::uint32_t i = 0; i < 2 * gpus; ++i) network.add_link("gpu" + std::to_string(i), port);
  for (std::uint32_t i = 0; i < 2 * gpus / kLeafGpus; ++i) {
    network.add_link("leaf" + std::to_string(i), kLeafGpus / 4 * port);
  }
  std::int64_t id = 0;
  for (const FlowDemand& demand : leaf_demands(traffic)) {
    network.start(FlowId(id++), Time(), demand);
  }
}

/// Runs until all have ended. Returns the time of the last end in seconds.
inline double run_leaf_traffic(FlowNetwork& network, const LeafTraffic& traffic) {
  start_leaf_traffic(network, traffic);
  std::vector<EndedFlow> ended;
  while (const auto at = network.next()) network.advance(*at, ended);
  return ended.size() == traffic.num_flows ? network.now().seconds() : -1.0;
}

}  // namespace shardsim::test
