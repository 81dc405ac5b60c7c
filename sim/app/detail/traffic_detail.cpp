#include "sim/app/detail/traffic_detail.hpp"

#include <algorithm>
#include <numeric>

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
  // Mostly all steps send the same.
  const bool divides = std::all_of(matrix.bytes.begin(), matrix.bytes.end(),
                                   [&](std::int64_t bytes) { return bytes % steps == 0; });
  matrix.steps = divides ? 1 : steps;
  if (divides) {
    for (std::int64_t& bytes : matrix.bytes) bytes /= steps;
  }
  return matrix;
}

namespace {

struct TierTraffic {
  std::vector<std::int64_t> by_rank;

  // `worn`: by rank, what is left of its bandwidth.
  LinkUse use(const char* name, const LinkSpec& link, const std::vector<double>& worn,
              std::int64_t steps, double step_s) const {
    LinkUse use;
    use.tier = name;
    const std::int64_t total = std::accumulate(by_rank.begin(), by_rank.end(), std::int64_t{0});
    use.bytes = (total + steps / 2) / steps;
    use.bandwidth_gb_per_s = link.bandwidth_gb_per_s;
    constexpr double kBytesPerGb = 1e9;
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      const double bytes = static_cast<double>(by_rank[rank]) / static_cast<double>(steps);
      const double room = link.bandwidth_gb_per_s * worn[rank] * kBytesPerGb * step_s;
      const double share = room > 0.0 ? bytes / room : 0.0;
      if (share <= use.busiest_share) continue;
      use.busiest_share = share;
      use.busiest_rank = static_cast<int>(rank);
    }
    return use;
  }
};

// What slow links (not outages) leave of each rank's bandwidth.
std::vector<double> worn_bandwidth(const Cluster& cluster, std::size_t ranks, LinkTier tier) {
  std::vector<double> worn(ranks, 1.0);
  if (cluster.faults == nullptr) return worn;
  for (const SlowLink& link : cluster.faults->slow_links) {
    if (link.tier != tier) continue;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const bool meant =
          link.node == kAllNodes || link.node == cluster.node_of(static_cast<int>(rank));
      if (meant) worn[rank] = std::min(worn[rank], link.bandwidth_factor);
    }
  }
  return worn;
}

}  // namespace

std::vector<LinkUse> link_use(const FiberWorld& world, const Scenario& scenario, double step_s) {
  const Cluster& cluster = world.options().cluster;
  const auto ranks = static_cast<std::size_t>(world.engine().num_ranks());
  TierTraffic inside{.by_rank = std::vector<std::int64_t>(ranks, 0)};
  TierTraffic between = inside;
  world.for_each_link([&](const LinkTraffic& link) {
    const bool is_near = cluster.node_of(link.from_rank) == cluster.node_of(link.to_rank);
    TierTraffic& tier = is_near ? inside : between;
    tier.by_rank[static_cast<std::size_t>(link.from_rank)] += link.counts.sent;
  });
  const SystemSpec& system = scenario.system;
  const std::int64_t steps = scenario.execution.steps;
  std::vector<LinkUse> uses;
  if (system.gpus_per_node > 1) {
    uses.push_back(inside.use("inside node", system.intra_node,
                              worn_bandwidth(cluster, ranks, LinkTier::intra_node), steps, step_s));
  }
  if (system.nodes > 1) {
    uses.push_back(between.use("between nodes", system.inter_node,
                               worn_bandwidth(cluster, ranks, LinkTier::inter_node), steps,
                               step_s));
  }
  return uses;
}

}  // namespace shardsim
