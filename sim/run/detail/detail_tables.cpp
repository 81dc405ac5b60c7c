#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "sim/run/detail/detail_of.hpp"
#include "sim/run/metrics.hpp"

namespace shardsim {

namespace {

std::size_t stage_of_rank(const MeshShape& mesh, int rank) {
  return static_cast<std::size_t>(mesh.place_of(rank).pp);
}

// By stage, the rank with the largest `key`; of equal ranks, the lowest.
template <class Key>
std::vector<int> first_largest(const World& world, const MeshShape& mesh, const Key& key) {
  std::vector<int> found(static_cast<std::size_t>(mesh.pp), -1);
  for (int rank = 0; rank < world.num_ranks(); ++rank) {
    int& best = found[stage_of_rank(mesh, rank)];
    if (best < 0 || key(rank) > key(best)) best = rank;
  }
  return found;
}

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

// Metrics hold whole bytes, or a mean if steps differ.
std::int64_t whole_bytes(const Result& result, const MetricRow& row) {
  const MetricValue* value = result.find(row);
  if (value == nullptr) return 0;
  if (const auto* bytes = std::get_if<std::int64_t>(value)) return *bytes;
  const auto* mean = std::get_if<double>(value);
  return mean == nullptr ? 0 : std::llround(*mean);
}

}  // namespace

// --- Stages ------------------------------------------------------------------------------------

std::vector<int> fullest_ranks(const World& world, const MeshShape& mesh) {
  return first_largest(world, mesh, [&](int rank) { return world.ledger(rank).peak(); });
}

std::vector<StageTime> stage_times(const World& world, const RunRecord& record,
                                   const MeshShape& mesh) {
  const std::vector<int> last =
      first_largest(world, mesh, [&](int rank) { return record.last_step_end(rank).clock; });
  const std::vector<int> fullest = fullest_ranks(world, mesh);
  std::vector<StageTime> stages;
  for (std::size_t stage = 0; stage < last.size(); ++stage) {
    const RankMoment& begin = record.last_step_begin(last[stage]);
    const RankMoment& end = record.last_step_end(last[stage]);
    const MemoryLedger& ledger = world.ledger(fullest[stage]);
    stages.push_back(
        {.stage = static_cast<std::int64_t>(stage),
         .rank = last[stage],
         .compute_s = (end.split.compute - begin.split.compute).seconds(),
         .exposed_comm_s = (end.split.exposed_comm - begin.split.exposed_comm).seconds(),
         .bubble_s = (end.split.bubble - begin.split.bubble).seconds(),
         .host_s = (end.split.host - begin.split.host).seconds(),
         .peak_bytes = ledger.peak(),
         .at_peak = ledger.at_peak()});
  }
  return stages;
}

Time begin_of_last_step(const World& world, const RunRecord& record) {
  Time first = record.last_step_begin(record.last_rank()).clock;
  for (int rank = 0; rank < world.num_ranks(); ++rank) {
    // A rank that takes no part in the step has no times.
    if (record.last_step_end(rank).clock == Time()) continue;
    first = min(first, record.last_step_begin(rank).clock);
  }
  return first;
}

// --- Traffic -----------------------------------------------------------------------------------

TrafficMatrix traffic_matrix(const World& world, std::int64_t steps) {
  const auto ranks = static_cast<std::size_t>(world.num_ranks());
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
  const bool divides =
      std::ranges::all_of(matrix.bytes, [&](std::int64_t bytes) { return bytes % steps == 0; });
  matrix.steps = divides ? 1 : steps;
  if (divides) {
    for (std::int64_t& bytes : matrix.bytes) bytes /= steps;
  }
  return matrix;
}

std::vector<AxisTraffic> traffic_by_axis(const World& world, std::int64_t steps) {
  std::map<std::string_view, AxisTraffic> by_axis;
  world.for_each_link([&](const LinkTraffic& link) {
    AxisTraffic& axis = by_axis[axis_of(std::string(link.group))];
    const Cluster& cluster = world.cluster();
    const bool is_inside = cluster.node_of(link.from_rank) == cluster.node_of(link.to_rank);
    (is_inside ? axis.inside_node : axis.between_nodes) += link.counts.sent;
  });
  std::vector<AxisTraffic> rows;
  for (const AxisMetric& metric : kAxisMetrics) {
    const AxisTraffic& sent = by_axis[metric.axis];
    if (sent.inside_node + sent.between_nodes == 0) continue;
    rows.push_back({metric.axis, (sent.inside_node + steps / 2) / steps,
                    (sent.between_nodes + steps / 2) / steps});
  }
  return rows;
}

std::vector<LinkUse> link_use(const World& world, const Experiment& experiment, double step_s) {
  const Cluster& cluster = world.cluster();
  const SystemSpec& system = experiment.scenario().system;
  const auto ranks = static_cast<std::size_t>(world.num_ranks());
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

// --- The rank that ends last -------------------------------------------------------------------

std::vector<AxisComm> axis_table(const RankRecorder& recorder, const RunRecord& record,
                                 const Result& result) {
  std::map<std::string_view, RankRecorder::CommTime> by_axis;
  for (const auto& [communicator, time] : recorder.comm()) {
    RankRecorder::CommTime& axis = by_axis[axis_of(communicator)];
    axis.exposed += time.exposed;
    axis.busy += time.busy;
  }
  const RankMoment& begin = record.last_step_begin(recorder.rank());
  const RankMoment& end = record.last_step_end(recorder.rank());
  Time exposed_left = end.split.exposed_comm - begin.split.exposed_comm;
  Time hidden_left = max(end.comm_busy - begin.comm_busy - exposed_left, Time());
  std::vector<AxisComm> axes;
  for (const auto& [axis, row] : kAxisMetrics) {
    const RankRecorder::CommTime time = by_axis[axis];
    const Time hidden = time.busy - time.exposed;
    exposed_left -= time.exposed;
    hidden_left -= hidden;
    const std::int64_t bytes = whole_bytes(result, row);
    if (bytes == 0 && time.busy == Time()) continue;
    axes.push_back({axis, time.exposed.seconds(), hidden.seconds(), bytes});
  }
  // The rest is the forming of groups, within a step in which members change.
  if (exposed_left != Time() || hidden_left != Time()) {
    axes.push_back({"other", exposed_left.seconds(), hidden_left.seconds(), 0});
  }
  return axes;
}

Roofline roofline_of(const RankRecorder& recorder, const Experiment& experiment) {
  const Device& device = experiment.cluster().device;
  Roofline roofline;
  roofline.peak_flops_per_s = device.peak(experiment.scenario().training.product_dtype());
  roofline.memory_bytes_per_s = device.memory_bytes_per_s;
  Time copies;
  for (const auto& [name, sum] : recorder.operations()) {
    if (sum.on_host_link) {
      copies += sum.time;
      continue;
    }
    roofline.points.push_back(
        {std::string(name), sum.flops, sum.bytes, sum.time.seconds(), sum.calls});
  }
  roofline.host_copies_s = copies.seconds();
  roofline.beside_comm_s = recorder.slowed().seconds();
  std::ranges::stable_sort(roofline.points,
                           [](const auto& a, const auto& b) { return a.time_s > b.time_s; });
  return roofline;
}

}  // namespace shardsim
