#include <algorithm>
#include <numeric>

#include <catch2/catch.hpp>

#include "tests/detail/detail_fixture.hpp"

namespace shardsim::test {

namespace {

std::int64_t sum_of(const std::vector<std::int64_t>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

}  // namespace

TEST_CASE("the matrix has what is sent: in all, and by the rank that sends most") {
  for (const DetailedRun& run : detailed_runs()) {
    INFO(run.name);
    const TrafficMatrix& matrix = run.detail.traffic;
    REQUIRE(matrix.cells == static_cast<std::size_t>(run.scenario.system.ranks));
    REQUIRE(matrix.bytes.size() == matrix.cells * matrix.cells);
    const auto steps = static_cast<double>(matrix.steps);
    CHECK(static_cast<double>(sum_of(matrix.bytes)) == run.metric("comm.bytes_sent.total") * steps);
    std::int64_t most = 0;
    for (std::size_t row = 0; row < matrix.cells; ++row) {
      const auto begin = matrix.bytes.begin() + static_cast<std::ptrdiff_t>(row * matrix.cells);
      const auto end = begin + static_cast<std::ptrdiff_t>(matrix.cells);
      most = std::max(most, std::accumulate(begin, end, std::int64_t{0}));
      CHECK(matrix.bytes[row * matrix.cells + row] == 0);
    }
    CHECK(static_cast<double>(most) == run.metric("comm.bytes_sent.max_rank") * steps);
  }
}

TEST_CASE("tiers of links share the bytes") {
  for (const DetailedRun& run : detailed_runs()) {
    INFO(run.name);
    double sum = 0;
    for (const LinkUse& link : run.detail.links) {
      sum += static_cast<double>(link.bytes);
      CHECK((link.bytes > 0) == (link.busiest_share > 0));
    }
    const double rounded = 0.5 * static_cast<double>(run.detail.links.size());
    CHECK(std::abs(sum - run.metric("comm.bytes_sent.total")) <=
          (run.detail.traffic.steps == 1 ? 0.0 : rounded));
  }
}

TEST_CASE("axes and tiers share the bytes: each axis sends what its metric says") {
  const DetailedRun two_nodes =
      detailed("scenarios/quickstart.json", {"system.nodes=2", "training.global_batch_size=32"});
  for (const DetailedRun& run : detailed_runs()) {
    INFO(run.name);
    for (const AxisTraffic& axis : run.detail.traffic_by_axis) {
      INFO(axis.axis);
      const double bytes = static_cast<double>(axis.inside_node + axis.between_nodes);
      CHECK(std::abs(bytes - run.metric("comm.bytes_sent.by_axis." + axis.axis)) <=
            (run.detail.traffic.steps == 1 ? 0.0 : 1.0));
    }
    for (const LinkUse& link : run.detail.links) {
      double sum = 0;
      for (const AxisTraffic& axis : run.detail.traffic_by_axis) {
        const bool is_inside = link.tier == "inside node";
        sum += static_cast<double>(is_inside ? axis.inside_node : axis.between_nodes);
      }
      CHECK(std::abs(sum - static_cast<double>(link.bytes)) <=
            (run.detail.traffic.steps == 1 ? 0.0 : 5.0));
    }
  }
  REQUIRE(two_nodes.detail.traffic_by_axis.size() == 1);
  CHECK(two_nodes.detail.traffic_by_axis.front().inside_node > 0);
  CHECK(two_nodes.detail.traffic_by_axis.front().between_nodes > 0);
}

TEST_CASE("a tier's share is its busiest rank's bytes by what the link could carry in the step") {
  const DetailedRun run = detailed("scenarios/verify-gpt-tp4.json");
  REQUIRE(run.detail.links.size() == 1);
  const LinkUse& link = run.detail.links.front();
  CHECK(link.tier == "inside node");
  CHECK(link.bandwidth_gb_per_s == run.scenario.system.intra_node.bandwidth_gb_per_s);
  const double carried = link.bandwidth_gb_per_s * 1e9 * run.metric("step_time_s");
  CHECK(link.busiest_share == run.metric("comm.bytes_sent.max_rank") / carried);
}

TEST_CASE("between nodes a share is of all the network cards of the busiest node") {
  // One ring through both nodes crosses from one to the other at one rank of each.
  const DetailedRun run =
      detailed("scenarios/quickstart.json", {"system.nodes=2", "training.global_batch_size=32"});
  const SystemSpec& system = run.scenario.system;
  REQUIRE(run.detail.links.size() == 2);
  const LinkUse& link = run.detail.links.back();
  CHECK(link.tier == "between nodes");
  CHECK(link.busiest == "node 0");
  const double sent = static_cast<double>(link.bytes) / 2;  // By each of the two, alike.
  const double cards = static_cast<double>(system.gpus_per_node);
  CHECK(link.busiest_share ==
        sent / (system.inter_node.bandwidth_gb_per_s * cards * 1e9 * run.metric("step_time_s")));
  // All axes' communication takes less than the step, so no link carried more than it can.
  CHECK(link.busiest_share < 1.0);
}

TEST_CASE("of a worn link the share is of what is left of it") {
  const DetailedRun run =
      detailed("scenarios/verify-gpt-tp4.json",
               {R"(faults.slow_links=[{"tier": "intra_node", "bandwidth_factor": 0.25}])"});
  const LinkUse& link = run.detail.links.front();
  const double carried = link.bandwidth_gb_per_s * 0.25 * 1e9 * run.metric("step_time_s");
  CHECK(link.busiest_share == run.metric("comm.bytes_sent.max_rank") / carried);
}

TEST_CASE("a folded run has the traffic, links and stages of the run of all ranks") {
  const std::string plan = "scenarios/gpt2-xl-zero2-32xa100.json";
  const DetailedRun whole = detailed(plan);
  const DetailedRun folded = detailed(plan, {"execution.fold=require"});
  CHECK(folded.detail.traffic.bytes == whole.detail.traffic.bytes);
  REQUIRE(folded.detail.links.size() == whole.detail.links.size());
  for (std::size_t i = 0; i < whole.detail.links.size(); ++i) {
    CHECK(folded.detail.links[i].bytes == whole.detail.links[i].bytes);
    CHECK(folded.detail.links[i].busiest_share == whole.detail.links[i].busiest_share);
  }
  REQUIRE(folded.detail.axes.size() == whole.detail.axes.size());
  for (std::size_t i = 0; i < whole.detail.axes.size(); ++i) {
    CHECK(folded.detail.axes[i].exposed_s == whole.detail.axes[i].exposed_s);
    CHECK(folded.detail.axes[i].hidden_s == whole.detail.axes[i].hidden_s);
  }
  CHECK(folded.detail.stages.front().rank == whole.detail.stages.front().rank);
  CHECK(folded.detail.schedule.names == whole.detail.schedule.names);
}

}  // namespace shardsim::test
