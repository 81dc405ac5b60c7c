#include <memory>
#include <numeric>
#include <vector>

#include <catch2/catch.hpp>
#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "sim/kernel/error.hpp"

#include "sim/hardware/nccl/cost.hpp"
#include "sim/hardware/network_model.hpp"

#include "tests/hardware/nccl_machines.hpp"

namespace shardsim {
namespace {

using testing::dgx_h100;
using testing::from_us;

Cluster h100_nodes(int nodes) {
  Cluster cluster;
  cluster.num_nodes = nodes;
  cluster.gpus_per_node = 8;
  cluster.intra_node = {.bytes_per_s = 450e9, .latency_s = 1e-6};
  cluster.inter_node = {.bytes_per_s = 50e9, .latency_s = 5e-6};
  cluster.nccl = std::make_shared<const NcclPlatform>(dgx_h100());
  return cluster;
}

std::vector<int> ranks_of(int count, int stride = 1) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) ranks[static_cast<std::size_t>(i)] = i * stride;
  return ranks;
}

}  // namespace

TEST_CASE("a cluster that asks for NCCL's model is priced by it, others are not") {
  Cluster cluster = h100_nodes(1);
  const auto all_reduce = CollectiveKind::all_reduce;
  const std::int64_t bytes = std::int64_t{1} << 30;
  NcclQuery call;
  call.bytes = bytes;
  const NcclOption option = nccl_choice(dgx_h100(), full_nodes(dgx_h100(), 1), call);
  CHECK(option.algorithm == NcclAlgorithm::nvls);
  const Time switched =
      from_us(sum_of(time_inside(dgx_h100(), full_nodes(dgx_h100(), 1), call, NcclWay::nvls, 1.0)));
  CHECK(network_price(cluster, ranks_of(8), all_reduce, bytes).duration == switched);
  cluster.nccl = nullptr;
  CHECK(network_price(cluster, ranks_of(8), all_reduce, bytes).duration != switched);
}

TEST_CASE("traffic is counted along a tree where NCCL takes one") {
  const auto all_reduce = CollectiveKind::all_reduce;
  const Cluster cluster = h100_nodes(2);
  // Tree LL, then NVLSTree; in one node Ring LL, then NVLS.
  CHECK(network_price(cluster, ranks_of(16), all_reduce, 1024).algorithm == Algorithm::tree);
  CHECK(network_price(cluster, ranks_of(16), all_reduce, 1 << 30).algorithm == Algorithm::tree);
  CHECK(network_price(cluster, ranks_of(8), all_reduce, 1024).algorithm == Algorithm::ring);
  CHECK(network_price(cluster, ranks_of(8), all_reduce, 1 << 30).algorithm == Algorithm::ring);
  CHECK(network_price(cluster, ranks_of(16), CollectiveKind::all_gather, 1024).algorithm ==
        Algorithm::ring);
}

TEST_CASE("an algorithm that the scenario asks for is the one that is priced") {
  const auto all_reduce = CollectiveKind::all_reduce;
  const Cluster cluster = h100_nodes(2);
  const auto filling = [](double bytes) { return 180 * bytes / (bytes + 42e6); };
  // Ring LL 40 us, Tree LL 25.2 us, and the bytes over 20.8 or 19.5 GB/s.
  CHECK(network_price(cluster, ranks_of(16), all_reduce, 512, Algorithm::ring).algorithm ==
        Algorithm::ring);
  CHECK(network_price(cluster, ranks_of(16), all_reduce, 512, Algorithm::ring).duration ==
        from_us(40 + filling(512) + 512 / 20'800.0));
  CHECK(network_price(cluster, ranks_of(16), all_reduce, 512, Algorithm::tree).duration ==
        from_us(25.2 + filling(512) + 512 / 19'500.0));
  // NCCL would take NVLSTree for 1 GiB; Tree Simple is 92.4 us and 165.6 GB/s.
  const std::int64_t gib = std::int64_t{1} << 30;
  CHECK(network_price(cluster, ranks_of(16), all_reduce, gib, Algorithm::tree).duration ==
        from_us(92.4 + filling(static_cast<double>(gib)) + static_cast<double>(gib) / 165'600));
}

TEST_CASE("where a group lies decides its price") {
  const auto gather = CollectiveKind::all_gather;
  const std::int64_t bytes = std::int64_t{1} << 30;
  const Cluster cluster = h100_nodes(8);
  const Time inside = network_price(cluster, ranks_of(8), gather, bytes).duration;
  const Time across = network_price(cluster, ranks_of(8, 8), gather, bytes).duration;
  CHECK(inside.picoseconds() * 7 < across.picoseconds());  // NVLink against one NIC
  Cluster shared = cluster;
  shared.nics_per_node = 4;
  NcclPlatform platform = dgx_h100();
  platform.nics_per_node = 4;
  shared.nccl = std::make_shared<const NcclPlatform>(platform);
  CHECK(network_price(shared, ranks_of(8, 8), gather, bytes).duration == across);
  CHECK(network_price(shared, ranks_of(64), gather, bytes).duration >
        network_price(cluster, ranks_of(64), gather, bytes).duration);
}

TEST_CASE("between pods the bytes take as much longer as there is less bandwidth") {
  Cluster cluster = h100_nodes(4);
  const auto gather = CollectiveKind::all_gather;
  const std::int64_t bytes = std::int64_t{1} << 32;
  const Time plain = network_price(cluster, ranks_of(32), gather, bytes).duration;
  const Time message = make_network_model(cluster)->transfer(0, 31, 48'000'000, Time());
  CHECK(message == from_us(1019));
  cluster.nodes_per_pod = 2;
  CHECK(network_price(cluster, ranks_of(32), gather, bytes).duration == plain);
  cluster.oversubscription = 7;
  const Time slow = network_price(cluster, ranks_of(32), gather, bytes).duration;
  CHECK(slow.picoseconds() > 6 * plain.picoseconds());
  CHECK(slow.picoseconds() < 7 * plain.picoseconds());  // The latency stays.
  CHECK(network_price(cluster, ranks_of(16), gather, bytes).duration ==
        network_price(h100_nodes(4), ranks_of(16), gather, bytes).duration);
  const auto network = make_network_model(cluster);
  CHECK(network->transfer(0, 31, 48'000'000, Time()) == from_us(7019));
  CHECK(network->transfer(0, 15, 48'000'000, Time()) == message);
}

TEST_CASE("messages and exchanges are priced by their links") {
  const Cluster cluster = h100_nodes(2);
  const auto network = make_network_model(cluster);
  CHECK(network->transfer(3, 3, 1000, Time()) == Time());
  // 6 MB to each of 8 far members at 48 GB/s; the root's 8 far members get 6 MB each.
  const std::int64_t bytes = 16 * 6'000'000;
  CHECK(network_price(cluster, ranks_of(16), CollectiveKind::all_to_all, bytes).duration ==
        from_us(1019));
  CHECK(network_price(cluster, ranks_of(16), CollectiveKind::scatter, bytes).duration ==
        from_us(1019));
}

TEST_CASE("every collective of every group has a price that grows with its bytes") {
  rc::prop("for any nodes, members and NICs", [] {
    Cluster cluster = h100_nodes(*rc::gen::inRange(1, 9));
    NcclPlatform platform = *rc::gen::element(testing::dgx_a100(), dgx_h100(), testing::dgx_b200());
    platform.version = *rc::gen::element(NcclVersion::v2_28, NcclVersion::v2_30);
    cluster.nics_per_node = platform.nics_per_node = *rc::gen::element(1, 2, 4, 8, 16);
    platform.nic_gbit_per_s = *rc::gen::element(25.0, 100.0, 200.0, 400.0, 800.0);
    cluster.nccl = std::make_shared<const NcclPlatform>(platform);
    std::vector<int> members;
    for (int rank = 0; rank < cluster.num_ranks(); ++rank) {
      if (*rc::gen::arbitrary<bool>()) members.push_back(rank);
    }
    RC_PRE(!members.empty());
    const auto kind = static_cast<CollectiveKind>(*rc::gen::inRange(0, 10));
    const auto size = static_cast<std::int64_t>(members.size());
    const std::int64_t bytes = size * *rc::gen::inRange<std::int64_t>(0, 1 << 20);
    const Time small = network_price(cluster, members, kind, bytes).duration;
    // A tree's correction falls by half over seven doublings, never by as much as the bytes grow.
    const Time large = network_price(cluster, members, kind, 2 * bytes).duration;
    RC_ASSERT((small > Time()) == (size > 1));
    RC_ASSERT(large >= small);
  });
}

TEST_CASE("a machine that NCCL's model does not know is refused where a run begins") {
  Cluster cluster = h100_nodes(1);
  NcclPlatform platform = dgx_h100();
  platform.nvswitch = false;
  cluster.nccl = std::make_shared<const NcclPlatform>(platform);
  CHECK_THROWS_AS(make_network_model(cluster), UsageError);
}

}  // namespace shardsim
