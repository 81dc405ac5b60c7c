#include "sim/hardware/faults/faulty_network.hpp"

#include <numeric>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/hardware/nccl/platform.hpp"

#include "tests/backends/fiber_fixture.hpp"
#include "tests/units.hpp"

// Prices over slow and flapping links. Groups that use none of them pay what they always did.
namespace shardsim::test {
namespace {

constexpr std::int64_t kBytes = 64'000'000;

// Four nodes of four.
Cluster machine(MachineFaults faults) {
  Cluster cluster = test_cluster(16, 4);
  cluster.faults = std::make_shared<const MachineFaults>(std::move(faults));
  return cluster;
}

Cluster healthy() { return test_cluster(16, 4); }

// As NCCL would run it; of the two links the network cards are the slower by far.
Cluster with_nccl(Cluster cluster) {
  NcclPlatform platform;
  platform.gpus_per_node = 4;
  platform.nics_per_node = 4;
  cluster.intra_node.bytes_per_s = 450e9;
  cluster.inter_node.bytes_per_s = 50e9;
  cluster.nccl = std::make_shared<const NcclPlatform>(platform);
  return cluster;
}

using Ranks = std::vector<int>;

Time price(const Cluster& cluster, CollectiveKind kind, const Ranks& ranks,
           std::int64_t bytes = kBytes, Time start = Time()) {
  const GroupLayout layout(cluster, ranks);
  CollectiveRequest request{.kind = kind, .layout = &layout, .algorithm = Algorithm::ring};
  request.bytes = bytes;
  request.largest_chunk = bytes / layout.size();
  return make_network_model(cluster)->collective(request, start).duration;
}

Time message(const Cluster& cluster, int from, int to, Time start = Time()) {
  return make_network_model(cluster)->transfer(from, to, kBytes, start);
}

const std::vector<CollectiveKind> kKinds = {
    CollectiveKind::all_reduce, CollectiveKind::reduce_scatter, CollectiveKind::all_gather,
    CollectiveKind::all_to_all, CollectiveKind::broadcast,      CollectiveKind::gather};

// Nodes 0 and 1, and all ranks of either; node 2 is the one with the slow card.
const Ranks kNode0 = {0, 1, 2, 3};
const Ranks kNode2 = {8, 9, 10, 11};
const Ranks kNodes01 = {0, 1, 2, 3, 4, 5, 6, 7};
const Ranks kNodes12 = {4, 5, 6, 7, 8, 9, 10, 11};
const Ranks kOneOfEach = {0, 4, 8, 12};

}  // namespace

TEST_CASE("a slow network card stretches exactly what goes over it") {
  const Cluster slow = machine({.slow_links = {{.node = 2, .bandwidth_factor = 0.5}}});
  Cluster half = healthy();
  half.inter_node.bytes_per_s *= 0.5;
  for (const CollectiveKind kind : kKinds) {
    INFO(name_of(kind));
    for (const Ranks& group : {kNode0, kNode2, kNodes01}) {
      CHECK(price(slow, kind, group) == price(healthy(), kind, group));
    }
    for (const Ranks& group : {kNodes12, kOneOfEach}) {
      CHECK(price(slow, kind, group) == price(half, kind, group));
      CHECK(price(slow, kind, group) > price(healthy(), kind, group));
    }
  }
  CHECK(message(slow, 0, 4) == message(healthy(), 0, 4));
  CHECK(message(slow, 8, 9) == message(healthy(), 8, 9));
  CHECK(message(slow, 0, 8) == message(half, 0, 8));
  CHECK(message(slow, 8, 0) == message(half, 8, 0));
}

TEST_CASE("a message over a slow card takes latency and twice its bytes") {
  const Cluster slow =
      machine({.slow_links = {{.node = 2, .bandwidth_factor = 0.5, .added_latency_s = 2e-6}}});
  // 64 MB at 5 GB/s, after 5 + 2 us.
  CHECK(message(slow, 0, 8) == us(12'800 + 7));
  // A ring over four nodes: 2 x 3 steps, each with a quarter.
  CHECK(price(slow, CollectiveKind::all_reduce, kOneOfEach) == us(6 * (3'200 + 7)));
}

TEST_CASE("slow links inside a node touch groups with two members there, and nothing else") {
  const SlowLink link{.tier = LinkTier::intra_node, .node = 2, .bandwidth_factor = 0.05};
  const Cluster slow = machine({.slow_links = {link}});
  Cluster worn = healthy();
  worn.intra_node.bytes_per_s *= 0.05;
  const CollectiveKind kind = CollectiveKind::all_gather;
  CHECK(price(slow, kind, kNode2) == price(worn, kind, kNode2));
  CHECK(price(slow, kind, kNodes12) == price(worn, kind, kNodes12));
  CHECK(price(slow, kind, kNode0) == price(healthy(), kind, kNode0));
  CHECK(price(slow, kind, kOneOfEach) == price(healthy(), kind, kOneOfEach));
  CHECK(message(slow, 8, 9) == message(worn, 8, 9));
  CHECK(message(slow, 0, 8) == message(healthy(), 0, 8));
}

TEST_CASE("of several slow links the worst holds, and a tier is all its nodes") {
  const Cluster slow = machine({.slow_links = {{.bandwidth_factor = 0.8, .added_latency_s = 3e-6},
                                               {.node = 2, .bandwidth_factor = 0.5}}});
  Cluster all = healthy();
  all.inter_node = {.bytes_per_s = 8e9, .latency_s = 8e-6};
  CHECK(message(slow, 0, 4) == message(all, 0, 4));
  all.inter_node.bytes_per_s = 5e9;
  CHECK(message(slow, 0, 8) == message(all, 0, 8));
}

TEST_CASE("NCCL chooses as if all were well, and then waits for the slow card") {
  const Cluster well = with_nccl(healthy());
  const Cluster slow = with_nccl(machine({.slow_links = {{.node = 2, .bandwidth_factor = 0.5}}}));
  Cluster half = well;
  auto platform = std::make_shared<NcclPlatform>(*well.nccl);
  platform->overrides.between.bandwidth_factor = 0.5;
  half.nccl = platform;
  for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::all_gather}) {
    CHECK(price(slow, kind, kNodes01) == price(well, kind, kNodes01));
    CHECK(price(slow, kind, kNode2) == price(well, kind, kNode2));
    CHECK(price(slow, kind, kNodes12) == price(half, kind, kNodes12));
    CHECK(price(slow, kind, kNodes12) > price(well, kind, kNodes12));
  }
  CHECK(message(slow, 0, 8) == message(half, 0, 8));
  CHECK(message(slow, 0, 4) == message(well, 0, 4));
}

TEST_CASE("NVLink at a tenth is what a group of several nodes waits for") {
  const SlowLink link{.tier = LinkTier::intra_node, .node = 2, .bandwidth_factor = 0.1};
  const Cluster slow = with_nccl(machine({.slow_links = {link}}));
  const Cluster well = with_nccl(healthy());
  // Four cards have 200 GB/s, NVLink has 45 left of 450: the bytes take 200 / 45 as long.
  Cluster worn = well;
  auto platform = std::make_shared<NcclPlatform>(*well.nccl);
  platform->overrides.between.bandwidth_factor = 45e9 / 200e9;
  worn.nccl = platform;
  const CollectiveKind kind = CollectiveKind::reduce_scatter;
  CHECK(price(slow, kind, kNodes12) == price(worn, kind, kNodes12));
  CHECK(price(slow, kind, kOneOfEach) == price(well, kind, kOneOfEach));
}

TEST_CASE("a flapping card holds up exactly what goes over it, by when it starts") {
  const Cluster flaps = machine(
      {.flapping_links = {{.node = 2, .down = us(1000), .period = us(10'000), .phase = us(3000)}}});
  // 64 MB at 10 GB/s after 5 us: 6,405 us. Down in [3,000, 4,000) and [13,000, 14,000).
  CHECK(message(flaps, 0, 4) == us(6405));
  CHECK(message(flaps, 0, 8) == us(7405));
  CHECK(message(flaps, 0, 8, us(4000)) == us(6405));
  CHECK(message(flaps, 0, 8, us(3500)) == us(6905));
  CHECK(message(flaps, 8, 0, us(12'000)) == us(7405));
  const Time ring = price(healthy(), CollectiveKind::all_gather, kNodes12);
  CHECK(price(flaps, CollectiveKind::all_gather, kNodes12, kBytes, us(3000)) == ring + us(1000));
  CHECK(price(flaps, CollectiveKind::all_gather, kNodes01, kBytes, us(3000)) == ring);
}

TEST_CASE("faults of stragglers alone leave the network as it is") {
  const Cluster cluster = machine({.slowdown = std::vector<double>(16, 2.0)});
  CHECK(price(cluster, CollectiveKind::all_reduce, kNodes12) ==
        price(healthy(), CollectiveKind::all_reduce, kNodes12));
}

}  // namespace shardsim::test
