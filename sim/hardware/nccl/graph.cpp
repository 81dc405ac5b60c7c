#include "sim/hardware/nccl/graph.hpp"

#include <algorithm>
#include <functional>
#include <vector>

namespace shardsim {

namespace {

// Room for rounding in "how many channels fit": 40 x 6 fit into 240.
constexpr double kRoom = 1e-9;

Tracked<int> fitting(const Tracked<double>& bandwidth, double speed) {
  return bandwidth.map([speed](double rate) { return static_cast<int>(rate / speed + kRoom); });
}

std::vector<double> speeds_of(const NcclPlatform& platform, const NcclPlacement& placement) {
  const NcclTable table =
      placement.nodes == 1 ? NcclTable::speeds_inside : NcclTable::speeds_between;
  std::vector<double> speeds;
  for (int i = 0; i < nccl_table(table).size[2]; ++i) {
    const double speed = nccl_constant(table, at(platform.version), at(platform.generation), i);
    if (speed > 0.0) speeds.push_back(speed);
  }
  return speeds;
}

// Channels of one speed that the GPUs' links and the NICs carry.
int channels_at(const NcclPlatform& platform, const NcclPlacement& placement, double speed) {
  Tracked<int> channels = static_cast<int>(nccl_constant(NcclTable::most_channels)) / 2;
  if (placement.gpus > 1) {
    channels = smaller_of(channels, fitting(nvlink_bandwidth(platform), speed));
  }
  if (placement.nodes > 1) {
    channels = smaller_of(channels, fitting(nic_bandwidth(platform), speed).times(placement.nics));
  }
  return channels;
}

// Fast channels are split in two, so that more multiprocessors work on them.
bool is_split(const NcclPlatform& platform, const NcclGraph& graph) {
  if (graph.inside < nccl_constant(NcclTable::duplicated_from)) return false;
  return platform.generation == GpuGeneration::ampere ||
         graph.inside >= nccl_constant(NcclTable::not_duplicated, 0) ||
         graph.channels <= nccl_constant(NcclTable::not_duplicated, 1);
}

NcclGraph split(const NcclGraph& graph) {
  return {.channels = 2 * graph.channels, .inside = graph.inside / 2, .between = graph.between / 2};
}

// The first speed with the most channels x speed; of channels not yet split.
NcclGraph found(const NcclPlatform& platform, const NcclPlacement& placement) {
  NcclGraph best;
  for (const double speed : speeds_of(platform, placement)) {
    const int channels = channels_at(platform, placement, speed);
    if (channels * speed > best.channels * best.inside + kRoom) {
      best = {.channels = channels, .inside = speed, .between = speed};
    }
  }
  return best;
}

// The next faster speeds in turn, while `goes_on` says so of the last one and the next one fits.
double raised(const std::vector<double>& speeds, double speed,
              const std::function<bool(double)>& goes_on, const std::function<bool(double)>& fits) {
  for (auto next = std::find(speeds.rbegin(), speeds.rend(), speed); next != speeds.rend();
       ++next) {
    if (*next == speed) continue;
    if (!goes_on(speed) || !fits(*next)) break;
    speed = *next;
  }
  return speed;
}

}  // namespace

NcclGraph ring_graph(const NcclPlatform& platform, const NcclPlacement& placement) {
  const NcclGraph graph = found(platform, placement);
  return is_split(platform, graph) ? split(graph) : graph;
}

NcclGraph tree_graph(const NcclPlatform& platform, const NcclPlacement& placement) {
  NcclGraph graph = found(platform, placement);
  if (is_split(platform, graph)) return split(graph);
  if (placement.nodes == 1 || placement.gpus == 1) return graph;
  graph.inside = raised(
      speeds_of(platform, placement), graph.inside,
      [&](double inside) { return inside < 2 * graph.between; },
      [&](double next) { return fitting(nvlink_bandwidth(platform), next) >= graph.channels; });
  return graph;
}

NcclGraph nvls_graph(const NcclPlatform& platform, const NcclPlacement& placement) {
  const bool far = placement.nodes > 1;
  NcclGraph graph;
  // A channel belongs to a GPU, its head. In a domain of more GPUs than heads some have none.
  graph.channels = std::min(far ? std::min(placement.gpus, placement.nics) : placement.gpus,
                            static_cast<int>(nccl_constant(NcclTable::nvls_most_heads)));
  const auto carries = [&](double speed) { return !far || nic_bandwidth(platform) >= speed; };
  const std::vector<double> speeds = speeds_of(platform, placement);
  const auto first = std::ranges::find_if(speeds, [&](double speed) {
    return carries(speed) && fitting(nvlink_bandwidth(platform), speed) > graph.channels;
  });
  if (first == speeds.end()) return {};
  graph.inside = *first;
  graph.between = raised(
      speeds, *first, [&](double between) { return between < 2 * graph.inside; }, carries);
  return graph;
}

NcclGraph graph_of(NcclAlgorithm algorithm, const NcclPlatform& platform,
                   const NcclPlacement& placement) {
  switch (algorithm) {
    case NcclAlgorithm::tree:
      return tree_graph(platform, placement);
    case NcclAlgorithm::nvls:
    case NcclAlgorithm::nvls_tree:
      return nvls_graph(platform, placement);
    case NcclAlgorithm::ring:
    case NcclAlgorithm::pat:
      break;
  }
  return ring_graph(platform, placement);
}

int executed_channels(const NcclPlatform& platform, const NcclPlacement& placement) {
  const int most = static_cast<int>(nccl_constant(NcclTable::most_channels));
  const NcclGraph ring = ring_graph(platform, placement);
  int channels = std::min(most, 2 * ring.channels);
  if (platform.generation != GpuGeneration::ampere && placement.nodes > 1 &&
      ring.inside > nccl_constant(NcclTable::redoubled, 0) &&
      ring.channels < nccl_constant(NcclTable::redoubled, 1)) {
    channels = std::min(most, 2 * channels);
  }
  return channels;
}

}  // namespace shardsim
