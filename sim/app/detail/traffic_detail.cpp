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

  LinkUse use(const char* name, const LinkSpec& link, std::int64_t steps, double step_s) const {
    LinkUse use;
    use.tier = name;
    const std::int64_t total = std::accumulate(by_rank.begin(), by_rank.end(), std::int64_t{0});
    use.bytes = (total + steps / 2) / steps;
    use.bandwidth_gb_per_s = link.bandwidth_gb_per_s;
    const auto busiest = std::max_element(by_rank.begin(), by_rank.end());
    use.busiest_rank = static_cast<int>(busiest - by_rank.begin());
    const double bytes = static_cast<double>(*busiest) / static_cast<double>(steps);
    constexpr double kBytesPerGb = 1e9;
    const double room = link.bandwidth_gb_per_s * kBytesPerGb * step_s;
    use.busiest_share = room > 0.0 ? bytes / room : 0.0;
    return use;
  }
};

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
    uses.push_back(inside.use("inside node", system.intra_node, steps, step_s));
  }
  if (system.nodes > 1) {
    uses.push_back(between.use("between nodes", system.inter_node, steps, step_s));
  }
  return uses;
}

}  // namespace shardsim
