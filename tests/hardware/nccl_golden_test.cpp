#include <cmath>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/hardware/nccl/cost.hpp"
#include "sim/hardware/nccl/graph.hpp"

#include "tests/hardware/nccl_machines.hpp"
#include "tests/units.hpp"

// NCCL's cost model against values worked out apart from this code, from the formulas and constants
// of NCCL 2.30.7.
namespace shardsim {
namespace {

using test::kMiB;
using testing::dgx_a100;
using testing::dgx_b200;
using testing::dgx_h100;
using testing::one_gpu_on_lo;

// "8x30/24": channels, speed inside and between nodes.
std::string text_of(const NcclGraph& graph, int nodes) {
  std::string text = fmt::format("{}x{}", graph.channels, graph.inside);
  return nodes == 1 ? text : text + fmt::format("/{}", graph.between);
}

std::string graphs(const NcclPlatform& platform, int nodes) {
  const NcclPlacement placement = full_nodes(platform, nodes);
  return text_of(ring_graph(platform, placement), nodes) + " " +
         text_of(tree_graph(platform, placement), nodes);
}

std::string heads(const NcclPlatform& platform, int nodes) {
  return text_of(nvls_graph(platform, full_nodes(platform, nodes)), 2);
}

NcclQuery call_of(CollectiveKind kind, std::int64_t bytes) {
  NcclQuery call;
  call.kind = kind;
  call.bytes = bytes;
  return call;
}

// "Ring 15.0/80.6 40.6/189.3 56.0/205.7": latency and bandwidth of an algorithm's protocols, before
// what depends on the size.
std::string values(const NcclPlatform& platform, int nodes, NcclAlgorithm algorithm) {
  const NcclPlacement placement = full_nodes(platform, nodes);
  const NcclQuery call = call_of(CollectiveKind::all_reduce, 1);
  std::string text = name_of(algorithm);
  for (int i = 0; i < kNcclProtocols; ++i) {
    const auto protocol = static_cast<NcclProtocol>(i);
    if (why_unavailable(platform, placement, call, algorithm, protocol) != nullptr) continue;
    text +=
        fmt::format(" {:.1f}/{:.1f}", latency_us(platform, placement, call, algorithm, protocol),
                    algorithm_bandwidth(platform, placement, call, algorithm, protocol));
  }
  return text;
}

std::string size_text(std::int64_t bytes) {
  if (bytes >= 1024 * kMiB) return fmt::format("{}G", bytes / 1024 / kMiB);
  return bytes >= kMiB ? fmt::format("{}M", bytes / kMiB) : fmt::format("{}K", bytes / 1024);
}

// "Ring LL, 4M Ring LL128": the choice at 1 KiB, and every power of two where it changes.
std::string choices(const NcclPlatform& platform, int nodes, CollectiveKind kind) {
  std::string text;
  std::string last;
  for (std::int64_t bytes = 1024; bytes <= 16384 * kMiB; bytes *= 2) {
    const NcclOption option =
        nccl_choice(platform, full_nodes(platform, nodes), call_of(kind, bytes));
    const std::string name =
        std::string(name_of(option.algorithm)) + " " + name_of(option.protocol);
    if (name == last) continue;
    text += last.empty() ? name : ", " + size_text(bytes) + " " + name;
    last = name;
  }
  return text;
}

// Without latency.
double large_bus_bandwidth(const NcclPlatform& platform, int nodes, NcclAlgorithm algorithm) {
  const NcclPlacement placement = full_nodes(platform, nodes);
  const NcclQuery call = call_of(CollectiveKind::all_reduce, 1);
  const double bandwidth =
      algorithm_bandwidth(platform, placement, call, algorithm, NcclProtocol::simple);
  return bus_bandwidth(call.kind, placement.ranks, 1'000'000'000, 1'000'000 / bandwidth);
}

// The bus bandwidth of 8 GiB, latency and all.
double chosen_bus_bandwidth(const NcclPlatform& platform, int nodes) {
  const NcclPlacement placement = full_nodes(platform, nodes);
  const NcclQuery call = call_of(CollectiveKind::all_reduce, 8192 * kMiB);
  return bus_bandwidth(call.kind, placement.ranks, call.bytes,
                       nccl_choice(platform, placement, call).time_us);
}

NcclPlatform with_nics(NcclPlatform platform, int nics) {
  platform.nics_per_node = nics;
  return platform;
}

NcclPlatform at_version(NcclPlatform platform, NcclVersion version) {
  platform.version = version;
  return platform;
}

}  // namespace

TEST_CASE("the search finds NCCL's channels") {
  CHECK(graphs(dgx_a100(), 1) == "12x20 12x20");
  CHECK(graphs(dgx_a100(), 2) == "8x24/24 8x30/24");
  CHECK(graphs(dgx_h100(), 1) == "12x30 12x30");
  CHECK(graphs(dgx_h100(), 2) == "8x45/45 8x45/45");
  CHECK(graphs(with_nics(dgx_h100(), 4), 2) == "8x24/24 8x24/24");
  CHECK(graphs(dgx_b200(), 1) == "16x45 16x45");
  CHECK(graphs(dgx_b200(), 2) == "8x48/48 8x86/48");
  CHECK(graphs(at_version(dgx_b200(), NcclVersion::v2_28), 2) == "8x48/48 8x48/48");
  CHECK(graphs(one_gpu_on_lo(), 2) == "1x1.2/1.2 1x1.2/1.2");
}

TEST_CASE("the search finds NCCL's heads of NVLS") {
  CHECK(heads(dgx_h100(), 1) == "8x40/60");
  CHECK(heads(dgx_h100(), 2) == "8x40/48");
  CHECK(nvls_graph(with_nics(dgx_h100(), 4), full_nodes(with_nics(dgx_h100(), 4), 2)).channels ==
        4);
  CHECK(heads(dgx_b200(), 1) == "8x80/90");
  CHECK(heads(dgx_b200(), 2) == "8x48/48");
}

TEST_CASE("latency and bandwidth of all_reduce are NCCL's") {
  using enum NcclAlgorithm;
  CHECK(values(dgx_h100(), 1, ring) == "Ring 15.0/80.6 40.6/189.3 56.0/205.7");
  CHECK(values(dgx_h100(), 1, tree) == "Tree 15.2/43.6 31.5/128.8 64.4/165.6");
  CHECK(values(dgx_h100(), 1, nvls) == "NVLS 25.0/272.0");
  CHECK(values(dgx_h100(), 2, ring) == "Ring 40.0/20.8 75.2/156.6 131.6/192.0");
  CHECK(values(dgx_h100(), 2, tree) == "Tree 25.2/19.5 48.5/146.8 92.4/165.6");
  CHECK(values(dgx_h100(), 2, nvls_tree) == "NVLSTree 66.8/246.2");
  CHECK(values(dgx_a100(), 1, ring) == "Ring 15.0/50.1 40.6/126.2 56.0/137.1");
  CHECK(values(dgx_a100(), 2, ring) == "Ring 68.0/12.0 78.0/85.3 204.4/102.4");
  CHECK(values(dgx_a100(), 2, tree) == "Tree 25.2/11.2 48.5/80.0 92.4/94.4");
}

TEST_CASE("the choice for all_reduce changes at NCCL's sizes") {
  const auto kind = CollectiveKind::all_reduce;
  CHECK(choices(dgx_a100(), 1, kind) == "Ring LL, 4M Ring LL128, 32M Ring Simple");
  CHECK(choices(dgx_a100(), 2, kind) ==
        "Tree LL, 256K Tree LL128, 16M Ring LL128, 128M Ring Simple");
  CHECK(choices(dgx_a100(), 64, kind) ==
        "Tree LL, 256K Tree LL128, 512M Tree Simple, 2G Ring LL128, 4G Ring Simple");
  CHECK(choices(dgx_h100(), 1, kind) == "Ring LL, 2M NVLS Simple");
  CHECK(choices(dgx_h100(), 2, kind) == "Tree LL, 256K Tree LL128, 4M NVLSTree Simple");
  CHECK(choices(dgx_h100(), 64, kind) == "Tree LL, 256K Tree LL128, 64M NVLSTree Simple");
  CHECK(choices(dgx_b200(), 1, kind) == "Ring LL, 4M NVLS Simple");
  CHECK(choices(dgx_b200(), 2, kind) == "Tree LL, 256K Tree LL128, 2M NVLSTree Simple");
}

TEST_CASE("the choice for all_gather and reduce_scatter changes at NCCL's sizes") {
  for (const auto kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter}) {
    CHECK(choices(dgx_a100(), 1, kind) == "Ring LL, 4M Ring LL128, 16M Ring Simple");
    CHECK(choices(dgx_a100(), 2, kind) == "Ring LL, 256K Ring LL128, 64M Ring Simple");
    CHECK(choices(dgx_a100(), 64, kind) == "Ring LL, 2M Ring LL128, 4G Ring Simple");
    CHECK(choices(dgx_h100(), 1, kind) == "Ring LL, 8M Ring LL128, 32M Ring Simple");
    CHECK(choices(dgx_h100(), 2, kind) == "Ring LL, 1M Ring LL128, 64M Ring Simple");
    CHECK(choices(dgx_h100(), 64, kind) == "Ring LL, 16M Ring LL128, 2G Ring Simple");
    CHECK(choices(dgx_b200(), 1, kind) == "Ring LL, 16M Ring LL128, 32M Ring Simple");
    CHECK(choices(dgx_b200(), 2, kind) == "Ring LL, 1M Ring LL128, 64M Ring Simple");
  }
}

TEST_CASE("large all_reduces run at NCCL's bus bandwidth") {
  using enum NcclAlgorithm;
  CHECK(std::round(large_bus_bandwidth(dgx_h100(), 1, nvls)) == 476);
  CHECK(std::round(large_bus_bandwidth(dgx_h100(), 1, ring)) == 360);
  CHECK(std::round(chosen_bus_bandwidth(dgx_h100(), 2)) == 461);
  CHECK(std::round(chosen_bus_bandwidth(dgx_h100(), 4)) == 363);
  CHECK(std::round(large_bus_bandwidth(with_nics(dgx_h100(), 4), 5, ring)) == 192);
  CHECK(std::round(large_bus_bandwidth(with_nics(dgx_h100(), 4), 5, tree)) == 172);
  CHECK(std::round(large_bus_bandwidth(dgx_a100(), 1, ring)) == 240);
  CHECK(std::round(large_bus_bandwidth(dgx_b200(), 1, nvls)) == 720);
}

}  // namespace shardsim
