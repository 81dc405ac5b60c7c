#include "sim/run/detail/traffic_detail.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace shardsim {

TrafficMatrix traffic_matrix(const FiberWorld& world, std::int64_t steps) {
  const auto ranks = static_cast<std::size_t>(world.engine().num_ranks());
  const std::size_t per_cell = (ranks + kMaxTrafficCells - 1) / kMaxTrafficCells;
  TrafficMatrix matrix;
  matrix.ranks_per_cell = static_cast<std::int64_t>(per_cell);
  matrix.cells = (ranks + per_cell - 1) / per_cell;
  matrix.bytes.assign(matrix.cells * matrix.cells, 0);
  world.for_each_link([&](const LinkTraffic& link) {
    const std::size_t row = static_cast<std::size_t>(link.from_rank) / per_cell;
    const std::size_t column = static_cast<std::size_t>(link.to_rank) / per_cell;
    matrix.bytes[row * matrix.cells + column] += link.counts.sent;
  });
  // Usually all steps send the same.
  const bool divides = std::all_of(matrix.bytes.begin(), matrix.bytes.end(),
                                   [&](std::int64_t bytes) { return bytes % steps == 0; });
  matrix.steps = divides ? 1 : steps;
  if (divides) {
    for (std::int64_t& bytes : matrix.bytes) bytes /= steps;
  }
  return matrix;
}

namespace {

// The parts of a tier that share a bandwidth: ranks, or nodes with all their network cards.
struct TierTraffic {
  const char* part;
  std::vector<std::int64_t> by_part;
  double gb_per_s = 0.0;  // For a part.

  // `worn`: by part, the remaining share of its bandwidth.
  void find_busiest(const std::vector<double>& worn, std::int64_t steps, double step_s,
                    LinkUse& use) const {
    constexpr double kBytesPerGb = 1e9;
    use.busiest = fmt::format("{} 0", part);
    for (std::size_t i = 0; i < by_part.size(); ++i) {
      const double bytes = static_cast<double>(by_part[i]) / static_cast<double>(steps);
      const double room = gb_per_s * worn[i] * kBytesPerGb * step_s;
      const double share = room > 0.0 ? bytes / room : 0.0;
      if (share <= use.busiest_share) continue;
      use.busiest_share = share;
      use.busiest = fmt::format("{} {}", part, i);
    }
  }

  LinkUse use(const char* tier, const LinkSpec& link, const std::vector<double>& worn,
              std::int64_t steps, double step_s) const {
    LinkUse use;
    use.tier = tier;
    const std::int64_t total = std::accumulate(by_part.begin(), by_part.end(), std::int64_t{0});
    use.bytes = (total + steps / 2) / steps;
    use.bandwidth_gb_per_s = link.bandwidth_gb_per_s;
    find_busiest(worn, steps, step_s, use);
    return use;
  }
};

// The share of bandwidth that slow links (not outages) leave to each node's links.
std::vector<double> worn_nodes(const Cluster& cluster, std::size_t nodes, LinkTier tier) {
  std::vector<double> worn(nodes, 1.0);
  if (cluster.faults == nullptr) return worn;
  for (const SlowLink& link : cluster.faults->slow_links) {
    if (link.tier != tier) continue;
    for (std::size_t node = 0; node < nodes; ++node) {
      const bool is_meant = link.node == kAllNodes || link.node == static_cast<int>(node);
      if (is_meant) worn[node] = std::min(worn[node], link.bandwidth_factor);
    }
  }
  return worn;
}

}  // namespace

std::vector<LinkUse> link_use(const FiberWorld& world, const Experiment& experiment,
                              double step_s) {
  const Cluster& cluster = world.options().cluster;
  const SystemSpec& system = experiment.scenario().system;
  const auto ranks = static_cast<std::size_t>(world.engine().num_ranks());
  const auto node_of = [&](int rank) { return static_cast<std::size_t>(cluster.node_of(rank)); };
  const std::size_t nodes = node_of(static_cast<int>(ranks) - 1) + 1;
  TierTraffic inside{.part = "rank",
                     .by_part = std::vector<std::int64_t>(ranks, 0),
                     .gb_per_s = system.intra_node.bandwidth_gb_per_s};
  TierTraffic between{
      .part = "node",
      .by_part = std::vector<std::int64_t>(nodes, 0),
      .gb_per_s = system.inter_node.bandwidth_gb_per_s * static_cast<double>(system.gpus_per_node)};
  world.for_each_link([&](const LinkTraffic& link) {
    const std::size_t node = node_of(link.from_rank);
    std::int64_t& bytes = node == node_of(link.to_rank)
                              ? inside.by_part[static_cast<std::size_t>(link.from_rank)]
                              : between.by_part[node];
    bytes += link.counts.sent;
  });
  const std::int64_t steps = experiment.options().training.steps;
  const std::vector<double> of_node = worn_nodes(cluster, nodes, LinkTier::intra_node);
  std::vector<double> of_rank(ranks);
  for (std::size_t i = 0; i < ranks; ++i) of_rank[i] = of_node[node_of(static_cast<int>(i))];
  std::vector<LinkUse> uses;
  if (system.gpus_per_node > 1) {
    uses.push_back(inside.use("inside node", system.intra_node, of_rank, steps, step_s));
  }
  if (system.nodes > 1) {
    uses.push_back(between.use("between nodes", system.inter_node,
                               worn_nodes(cluster, nodes, LinkTier::inter_node), steps, step_s));
  }
  return uses;
}

}  // namespace shardsim
