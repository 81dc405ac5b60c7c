#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "sim/hardware/nccl/cost.hpp"
#include "sim/hardware/nccl/prices.hpp"

#include "tests/hardware/nccl_machines.hpp"

// Overrides of NCCL's own choices and constants (sim/hardware/nccl/overrides.hpp).
namespace shardsim {
namespace {

using testing::dgx_h100;
using testing::from_us;
using Kind = CollectiveKind;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

bool allows(const NcclSelection& selection, Kind kind, NcclAlgorithm algorithm,
            NcclProtocol protocol = NcclProtocol::simple) {
  return selection.why_left_out(kind, algorithm, protocol) == nullptr;
}

// "E0406: there is no algorithm ..." of what is refused.
std::string refusal(const std::string& algorithms, const std::string& protocols = "") {
  try {
    const NcclSelection selection(algorithms, protocols);
  } catch (const UsageError& error) {
    CHECK_FALSE(error.fix().empty());
    return error.code() + ": " + error.what();
  }
  return "";
}

NcclPlatform h100_with(const std::string& algorithms, const std::string& protocols = "") {
  NcclPlatform platform = dgx_h100();
  platform.overrides.selection = NcclSelection(algorithms, protocols);
  return platform;
}

// By all ranks.
CollectivePrice price(const Cluster& cluster, Kind kind, std::int64_t bytes,
                      Algorithm algorithm = Algorithm::automatic) {
  return network_price(cluster, all_from_zero(cluster.num_ranks()), kind, bytes, algorithm);
}

}  // namespace

TEST_CASE("a selection is written as NCCL_ALGO and NCCL_PROTO are") {
  const NcclSelection everything;
  const NcclSelection some("RING,tree", "^ll128");
  for (const Kind kind :
       {Kind::all_reduce, Kind::reduce_scatter, Kind::all_gather, Kind::broadcast, Kind::reduce}) {
    CHECK(allows(everything, kind, NcclAlgorithm::nvls));
    CHECK(allows(some, kind, NcclAlgorithm::ring));
    CHECK(allows(some, kind, NcclAlgorithm::tree, NcclProtocol::ll));
    CHECK_FALSE(allows(some, kind, NcclAlgorithm::tree, NcclProtocol::ll128));
    CHECK_FALSE(allows(some, kind, NcclAlgorithm::nvls_tree));
  }
  CHECK(some.why_left_out(Kind::reduce, NcclAlgorithm::pat, NcclProtocol::simple) ==
        std::string("system.nccl.algorithms leaves it out"));
  CHECK(some.why_left_out(Kind::reduce, NcclAlgorithm::ring, NcclProtocol::ll128) ==
        std::string("system.nccl.protocols leaves it out"));
}

TEST_CASE("a list of one function replaces the list of all for it") {
  const NcclSelection selection("ring;AllReduce:^ring,collnet;broadcast:pat", "");
  CHECK(allows(selection, Kind::all_reduce, NcclAlgorithm::tree));
  CHECK_FALSE(allows(selection, Kind::all_reduce, NcclAlgorithm::ring));
  CHECK(allows(selection, Kind::all_gather, NcclAlgorithm::ring));
  CHECK_FALSE(allows(selection, Kind::all_gather, NcclAlgorithm::pat));
  CHECK_FALSE(allows(selection, Kind::broadcast, NcclAlgorithm::ring));
  // Without a first list for all, the others are as they were.
  const NcclSelection one("allreduce:tree", "");
  CHECK_FALSE(allows(one, Kind::all_reduce, NcclAlgorithm::ring));
  CHECK(allows(one, Kind::reduce_scatter, NcclAlgorithm::ring));
}

TEST_CASE("what is no selection is refused with the word that is wrong") {
  CHECK(refusal("rings") == "E0406: system.nccl.algorithms: there is no algorithm \"rings\"");
  CHECK(refusal("ring, tree") == "E0406: system.nccl.algorithms: there is no algorithm \" tree\"");
  CHECK(refusal("ring,") == "E0406: system.nccl.algorithms: there is no algorithm \"\"");
  CHECK(refusal("^") == "E0406: system.nccl.algorithms: there is no algorithm \"\"");
  CHECK(refusal("", "ll256") == "E0406: system.nccl.protocols: there is no protocol \"ll256\"");
  CHECK(refusal("ring;tree") == "E0406: system.nccl.algorithms: \"tree\" names no function");
  CHECK(refusal("gather:ring") == "E0406: system.nccl.algorithms: there is no function \"gather\"");
  CHECK(refusal("ring,CollNetDirect") ==
        "E0406: system.nccl.algorithms: CollNetDirect is SHARP in the network, which this model "
        "does not have");
  CHECK(refusal("^collnetdirect,collnetchain").empty());
  CHECK(refusal("\x1b[31m") == "E0406: system.nccl.algorithms: there is no algorithm \"?[31m\"");
  CHECK(refusal(std::string(5000, 'x')).size() < 200);
}

TEST_CASE("NCCL chooses the cheapest of what is left") {
  NcclQuery call;
  call.bytes = kGiB;
  const NcclPlacement node = full_nodes(dgx_h100(), 1);
  CHECK(nccl_choice(h100_with("^pat"), node, call).algorithm == NcclAlgorithm::nvls);
  const NcclOption ring = nccl_choice(h100_with("^nvls"), node, call);
  CHECK(ring.algorithm == NcclAlgorithm::ring);
  CHECK(ring.time_us == nccl_options(dgx_h100(), node, call)[5].time_us);  // Ring, Simple
  const NcclOption slow = nccl_choice(h100_with("tree", "ll"), node, call);
  CHECK(slow.algorithm == NcclAlgorithm::tree);
  CHECK(slow.protocol == NcclProtocol::ll);
}

TEST_CASE("where nothing is left the collective is refused, and others are not") {
  const Cluster trees = nodes_of(1, h100_with("tree"));
  CHECK(price(trees, Kind::all_reduce, kGiB).algorithm == Algorithm::tree);
  try {
    (void)price(trees, Kind::all_gather, kGiB);
    FAIL("was not refused");
  } catch (const UsageError& error) {
    CHECK(error.code() == "E0407");
    const std::string message = error.what();
    CHECK(message.find("all_gather of 8 ranks on 1 nodes") != std::string::npos);
    CHECK(message.find("Tree: a tree serves all_reduce only; Ring: system.nccl.algorithms leaves "
                       "it out") != std::string::npos);
  }
  // A scenario that asks for a ring itself leaves none of these.
  CHECK_THROWS_AS(price(trees, Kind::all_reduce, kGiB, Algorithm::ring), UsageError);
  // NVLS has Simple alone.
  CHECK_THROWS_AS(price(nodes_of(1, h100_with("nvls", "ll")), Kind::all_reduce, 8), UsageError);
  CHECK_NOTHROW(price(trees, Kind::all_to_all, kGiB));  // Messages, which choose nothing.
}

TEST_CASE("a barrier that is left only trees is one, and counted as before") {
  const CollectivePrice barrier = price(nodes_of(2, h100_with("tree")), Kind::barrier, 0);
  CHECK(barrier.algorithm == Algorithm::ring);
  // Tree LL of 4 bytes, for which hardly anything has to fill.
  CHECK(barrier.duration.picoseconds() == from_us(25.2 + 4 / 19'500.0).picoseconds() + 17);
}

TEST_CASE("corrections act on the two parts of every price of their tier, and not on choices") {
  NcclPlatform platform = dgx_h100();
  platform.overrides.inside = {.bandwidth_factor = 0.5, .added_latency_us = 10};
  platform.overrides.between = {.bandwidth_factor = 2, .added_latency_us = -5};
  for (const int nodes : {1, 2}) {
    const Cluster plain = nodes_of(nodes, dgx_h100());
    const Cluster corrected = nodes_of(nodes, platform);
    const std::vector<int> members = all_from_zero(plain.num_ranks());
    for (const Kind kind : {Kind::all_reduce, Kind::all_gather, Kind::reduce_scatter,
                            Kind::broadcast, Kind::reduce, Kind::all_to_all, Kind::gather}) {
      for (const std::int64_t bytes : {std::int64_t{1} << 12, std::int64_t{1} << 21, kGiB}) {
        const NcclPrice parts = nccl_price(plain, members, kind, bytes);
        CHECK(parts.far == (nodes == 2));
        CHECK(price(plain, kind, bytes).duration == from_us(parts.latency_us + parts.transfer_us));
        const CollectivePrice found = price(corrected, kind, bytes);
        CHECK(found.duration == (nodes == 1
                                     ? from_us(parts.latency_us + 10 + parts.transfer_us / 0.5)
                                     : from_us(parts.latency_us - 5 + parts.transfer_us / 2)));
        CHECK(found.algorithm == price(plain, kind, bytes).algorithm);
      }
    }
  }
}

TEST_CASE("messages are corrected by the tier that they cross") {
  NcclPlatform platform = dgx_h100();
  platform.overrides.inside = {.bandwidth_factor = 0.5, .added_latency_us = 10};
  platform.overrides.between = {.bandwidth_factor = 2, .added_latency_us = -5};
  const auto network = make_network_model(nodes_of(2, platform));
  const NcclTime near = exchange_time(dgx_h100(), {.near_bytes = 1e6, .near_peers = 1}, 1);
  CHECK(network->transfer(0, 1, 1'000'000, Time()) ==
        from_us(near.latency_us + 10 + near.transfer_us / 0.5));
  CHECK(network->transfer(0, 8, 48'000'000, Time()) == from_us(19 - 5 + 500));
  CHECK(network->transfer(3, 3, 48'000'000, Time()) == Time());
}

TEST_CASE("the least latency that may be added leaves every operation one") {
  NcclPlatform platform = dgx_h100();
  platform.overrides.inside.added_latency_us = kLeastAddedLatency;
  platform.overrides.between.added_latency_us = kLeastAddedLatency;
  for (const int nodes : {1, 2, 64}) {
    for (const Kind kind : {Kind::all_reduce, Kind::all_gather, Kind::reduce_scatter,
                            Kind::broadcast, Kind::reduce, Kind::all_to_all, Kind::barrier}) {
      CHECK(price(nodes_of(nodes, platform), kind, 0).duration > Time());
    }
  }
}

}  // namespace shardsim
