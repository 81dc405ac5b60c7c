#include <cstring>
#include <string>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "sim/hardware/nccl/constants.hpp"
#include "sim/hardware/nccl/cost.hpp"
#include "sim/hardware/nccl/graph.hpp"
#include "sim/hardware/nccl/prices.hpp"

#include "tests/hardware/nccl_machines.hpp"

namespace shardsim {
namespace {

using testing::dgx_a100;
using testing::dgx_b200;
using testing::dgx_h100;
using testing::one_gpu_on_lo;
using enum CollectiveKind;
using enum NcclAlgorithm;
using enum NcclProtocol;

// Why an algorithm with a protocol is not available; "" where it is.
std::string why(const NcclPlatform& platform, int nodes, const NcclQuery& call,
                NcclAlgorithm algorithm, NcclProtocol protocol = simple) {
  const char* reason =
      why_unavailable(platform, full_nodes(platform, nodes), call, algorithm, protocol);
  return reason == nullptr ? "" : reason;
}

NcclQuery sum_of(CollectiveKind kind, DType dtype = DType::bf16) {
  return {.kind = kind, .bytes = 1 << 20, .dtype = dtype, .reduction = NcclReduction::sum};
}

std::string refusal(const NcclPlatform& platform) {
  try {
    check(platform);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("every constant of NCCL's model has a name, a source, and as many values as it says") {
  CHECK(nccl_tables().size() == kNcclTables);
  int index = 0;
  for (const NcclConstants& constants : nccl_tables()) {
    CAPTURE(constants.name);
    CHECK(static_cast<int>(constants.table) == index++);
    CHECK(std::strlen(constants.name) > 0);
    CHECK(std::strlen(constants.source) > 10);
    const auto [rows, columns, depth] = constants.size;
    CHECK(constants.values.size() == static_cast<std::size_t>(rows * columns * depth));
    CHECK((constants.values.size() == 1 || std::strlen(constants.index) > 0));
  }
}

TEST_CASE("a value beyond a table is refused, not read") {
  CHECK(nccl_constant(NcclTable::tree_cap, at(GpuGeneration::hopper), 1) == 41.4);
  CHECK_THROWS_AS(nccl_constant(NcclTable::tree_cap, 3, 0), std::out_of_range);
  CHECK_THROWS_AS(nccl_constant(NcclTable::tree_cap, 0, 3), std::out_of_range);
}

TEST_CASE("constants are listed with their unit and what their columns are") {
  CHECK(words_of(nccl_table(NcclTable::net_overhead)) ==
        "network overhead of a step = 1 2 us (vendor of the CPU: Intel, AMD)");
  CHECK(words_of(nccl_table(NcclTable::tree_share)) == "share of a tree = 0.92");
}

TEST_CASE("each algorithm is available where NCCL has it, and says why not elsewhere") {
  const NcclPlatform h100 = dgx_h100();
  CHECK(why(h100, 1, sum_of(all_reduce), ring) == "");
  CHECK(why(h100, 1, sum_of(all_gather), tree) == "a tree serves all_reduce only");
  CHECK(why(h100, 1, sum_of(all_reduce), nvls) == "");
  CHECK(why(h100, 2, sum_of(all_reduce), nvls) == "between nodes NVLS needs SHARP in the network");
  CHECK(why(dgx_a100(), 1, sum_of(all_reduce), nvls) == "NVLink SHARP needs Hopper or later");
  CHECK(why(h100, 2, sum_of(all_reduce), nvls_tree) == "");
  CHECK(why(h100, 1, sum_of(all_reduce), nvls_tree) == "NVLSTree serves several nodes only");
  CHECK(why(h100, 2, sum_of(all_gather), pat) == "PAT serves one GPU per node only");
  CHECK(why(one_gpu_on_lo(), 4, sum_of(all_gather), pat) == "");
  CHECK(why(one_gpu_on_lo(), 4, sum_of(all_reduce), pat) ==
        "PAT serves all_gather and reduce_scatter only");
  CHECK(why(one_gpu_on_lo(), 4, sum_of(all_reduce), nvls_tree) ==
        "too few GPUs of a node take part");
  CHECK(why(h100, 1, sum_of(broadcast), nvls) ==
        "NVLS serves all_reduce, all_gather and reduce_scatter only");
}

TEST_CASE("protocols are available where NCCL has them") {
  CHECK(why(dgx_h100(), 1, sum_of(all_reduce), nvls, ll) ==
        "the algorithm has the protocol Simple only");
  CHECK(why(dgx_h100(), 2, sum_of(all_reduce), ring, ll128) == "");
  CHECK(why(one_gpu_on_lo(), 2, sum_of(all_reduce), ring, ll128) ==
        "LL128 needs a NIC beside the GPU");
}

TEST_CASE("the switch reduces what its instructions can") {
  const NcclPlatform h100 = dgx_h100();
  CHECK(why(h100, 1, sum_of(all_reduce, DType::fp8_e4m3), nvls) == "NVSwitch does not reduce fp8");
  CHECK(why(h100, 1, sum_of(all_gather, DType::fp8_e4m3), nvls) == "");
  NcclQuery call = sum_of(all_reduce);
  call.reduction = NcclReduction::average;
  CHECK(why(h100, 1, call, nvls) == "NVSwitch does not average");
  call.reduction = NcclReduction::product;
  CHECK(why(h100, 1, call, nvls) == "NVSwitch does not multiply");
  call.reduction = NcclReduction::maximum;
  CHECK(why(h100, 1, call, nvls) == "");
  call.dtype = DType::fp32;
  CHECK(why(h100, 1, call, nvls) == "NVSwitch only sums fp32 and fp64");
}

TEST_CASE("two GPUs of a node use NVLS from release 2.30 on") {
  NcclPlatform h100 = dgx_h100();
  const NcclPlacement pair{.ranks = 2, .nodes = 1, .gpus = 2, .nics = 2};
  CHECK(why_unavailable(h100, pair, sum_of(all_reduce), nvls, simple) == nullptr);
  h100.version = NcclVersion::v2_28;
  CHECK(std::string(why_unavailable(h100, pair, sum_of(all_reduce), nvls, simple)) ==
        "too few GPUs of a node take part");
}

TEST_CASE("in a domain of more GPUs than heads NVLS serves all_reduce only") {
  NcclPlatform domain = dgx_b200();
  for (const int gpus : {32, 33, 72}) {
    domain.gpus_per_node = gpus;
    CHECK(why(domain, 1, sum_of(all_reduce), nvls) == "");
    CHECK(nvls_graph(domain, full_nodes(domain, 1)).channels == 32);
    for (const CollectiveKind kind : {all_gather, reduce_scatter}) {
      CHECK(why(domain, 1, sum_of(kind), nvls) ==
            (gpus == 32 ? "" : "with more GPUs than heads NVLS serves all_reduce only"));
    }
  }
}

// Sweeps of one NVL72 domain: openxla/xla at 336bb15c, default_collective_perf_table.txtpb.
TEST_CASE("a large all_reduce of an NVLink domain is that of NVLS, as it was measured") {
  NcclPlatform domain = dgx_b200();
  struct Row {
    int gpus;
    std::int64_t bytes;
    double bus_gb_per_s;
  };
  for (const Row& row : {Row{64, 17179869184, 925.73}, Row{72, 9663676416, 884.17}}) {
    domain.gpus_per_node = row.gpus;
    NcclQuery call = sum_of(all_reduce);
    call.bytes = row.bytes;
    const NcclOption option = nccl_choice(domain, full_nodes(domain, 1), call);
    CHECK(option.algorithm == nvls);
    const double priced = bus_bandwidth(all_reduce, row.gpus, row.bytes, option.time_us);
    CHECK(priced == Approx(row.bus_gb_per_s).epsilon(0.05));  // A ring's is a quarter less.
  }
}

TEST_CASE("fp8 over more than eight ranks leaves the ring, but takes no longer") {
  NcclQuery call = sum_of(all_reduce, DType::fp8_e4m3);
  call.bytes = std::int64_t{1} << 30;
  const NcclPlacement nodes = full_nodes(dgx_a100(), 4);
  const NcclOption option = nccl_choice(dgx_a100(), nodes, call);
  CHECK(option.algorithm == tree);
  CHECK(option.cost_us == option.time_us);
  for (const NcclOption& other : nccl_options(dgx_a100(), nodes, call)) {
    if (other.algorithm != ring) continue;
    CHECK(other.cost_us == 1024 * other.time_us);
  }
  CHECK(nccl_choice(dgx_a100(), full_nodes(dgx_a100(), 1), call).algorithm == ring);
}

TEST_CASE("broadcasts over several orders of the ring take a hop per rank") {
  // One node: 6.6 + 0.6; two nodes of eight: 6.6 + 16 x 2.7.
  const NcclPlatform h100 = dgx_h100();
  CHECK(latency_us(h100, full_nodes(h100, 1), sum_of(broadcast), ring, ll) == Approx(7.2));
  CHECK(latency_us(h100, full_nodes(h100, 2), sum_of(broadcast), ring, ll) == Approx(49.8));
}

TEST_CASE("PAT takes a step per doubling and a little per rank") {
  // 8 + 2 x 14 / 3.5 + 4 x 2.8
  const NcclPlatform lo = one_gpu_on_lo();
  CHECK(latency_us(lo, full_nodes(lo, 4), sum_of(all_gather), pat, simple) == Approx(27.2));
  CHECK(algorithm_bandwidth(lo, full_nodes(lo, 4), sum_of(all_gather), pat, simple) ==
        Approx(0.9));  // 0.75 x 1.2, not converted
}

TEST_CASE("small messages use fewer channels") {
  const NcclPlatform h100 = dgx_h100();
  const NcclPlacement node = full_nodes(h100, 1);
  CHECK(executed_channels(h100, node) == 24);
  NcclOption option{.algorithm = ring, .protocol = ll};
  // 512 threads x 8 bytes x 8 ranks = 32 KiB per channel
  CHECK(channels_used(h100, node, option, 1 << 10) == 1);
  CHECK(channels_used(h100, node, option, 4 << 15) == 4);
  CHECK(channels_used(h100, node, option, 1 << 30) == 24);
}

TEST_CASE("a group has the NICs its members are next to") {
  Cluster cluster;
  cluster.num_nodes = 2;
  cluster.gpus_per_node = 8;
  const auto nics = [&](std::vector<int> members) {
    return placement_of(GroupLayout(cluster, std::move(members))).nics;
  };
  CHECK(nics({0, 1, 2, 3, 8, 9, 10, 11}) == 4);
  CHECK(nics({3, 1, 9, 8, 0, 10, 2}) == 3);
  CHECK(nics({0, 8}) == 1);
  CHECK(nics({0, 1, 2, 8}) == 1);  // The node with the fewest decides.
  cluster.nics_per_node = 4;
  CHECK(nics({0, 1, 8, 9}) == 1);  // Neighbours share a NIC.
  CHECK(nics({2, 0, 8, 10}) == 2);
  cluster.nics_per_node = 16;
  CHECK(nics({0, 8}) == 2);
}

TEST_CASE("machines without constants are refused by name") {
  CHECK(refusal(dgx_h100()) == "");
  NcclPlatform platform = dgx_h100();
  platform.nvswitch = false;
  CHECK(refusal(platform) ==
        "NCCL's cost model cannot price this machine: the GPUs of a node are not joined by NVLink "
        "through NVSwitch");
  platform = dgx_h100();
  platform.pcie_generation = 7;
  CHECK(refusal(platform) ==
        "NCCL's cost model cannot price this machine: PCIe generation 7 is not in its tables");
  platform = dgx_h100();
  platform.nic_gbit_per_s = 0.5;
  CHECK(refusal(platform) ==
        "NCCL's cost model cannot price this machine: a NIC of 0.5 Gbit/s is slower than the "
        "slowest channel it knows, 0.12 GB/s");
  platform.nic_gbit_per_s = 0;
  platform.gpus_per_node = 0;
  CHECK(refusal(platform) ==
        "NCCL's cost model cannot price this machine: a node has no GPU or no NIC");
  CHECK_THROWS_AS(nccl_options(dgx_h100(), full_nodes(dgx_h100(), 1), sum_of(all_to_all)),
                  UsageError);
}

}  // namespace shardsim
