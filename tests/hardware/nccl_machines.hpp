#pragma once

#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "sim/kernel/time.hpp"

#include "sim/hardware/nccl/platform.hpp"
#include "sim/hardware/nccl/prices.hpp"
#include "sim/hardware/nccl/tuning.hpp"
#include "sim/hardware/network_model.hpp"

// The machines that NCCL's check values are told for: 8 GPUs and 8 NICs per node.
namespace shardsim::testing {

/// As NCCL's model turns its microseconds into a time: to the last bit.
inline Time from_us(double microseconds) { return Time::from_seconds(microseconds / 1e6); }

/// 8 x 200 Gbit/s, PCIe 4, AMD.
inline NcclPlatform dgx_a100() {
  NcclPlatform platform;
  platform.generation = GpuGeneration::ampere;
  platform.nvlinks = 12;
  platform.nic_gbit_per_s = 200;
  platform.pcie_generation = 4;
  platform.cpu = CpuVendor::amd;
  return platform;
}

/// 8 x 400 Gbit/s, PCIe 5, Intel.
inline NcclPlatform dgx_h100() { return {}; }

/// 8 x 400 Gbit/s, PCIe 5, Intel.
inline NcclPlatform dgx_b200() {
  NcclPlatform platform;
  platform.generation = GpuGeneration::blackwell;
  return platform;
}

/// One GPU per process that takes itself for a node, over `lo`, for which NCCL assumes 10 Gbit/s.
inline NcclPlatform one_gpu_on_lo() {
  NcclPlatform platform;
  platform.gpus_per_node = 1;
  platform.nics_per_node = 1;
  platform.nic_gbit_per_s = 10;
  platform.nic_beside_gpu = false;
  return platform;
}

}  // namespace shardsim::testing

// Questions to NCCL's model that check values answer.
namespace shardsim {

/// A group of all GPUs of `nodes` nodes.
inline NcclPlacement full_nodes(const NcclPlatform& platform, int nodes) {
  return {.ranks = nodes * platform.gpus_per_node,
          .nodes = nodes,
          .gpus = platform.gpus_per_node,
          .nics = platform.nics_per_node};
}

inline std::vector<NcclOption> nccl_options(const NcclPlatform& platform,
                                            const NcclPlacement& placement, const NcclQuery& call) {
  return NcclTuning(platform, placement, call).options(call.bytes);
}

inline NcclOption nccl_choice(const NcclPlatform& platform, const NcclPlacement& placement,
                              const NcclQuery& call) {
  return NcclTuning(platform, placement, call).choice(call.bytes);
}

/// Bus bandwidth of nccl-tests in GB/s: bytes / time x bus_factor.
inline double bus_bandwidth(CollectiveKind kind, int ranks, std::int64_t bytes, double time_us) {
  return static_cast<double>(bytes) * bus_factor(row_of(kind), ranks) / (kBytesPerUs * time_us);
}

/// Eight GPUs of each of so many nodes, priced by NCCL.
inline Cluster nodes_of(int nodes, const NcclPlatform& platform) {
  Cluster cluster;
  cluster.num_nodes = nodes;
  cluster.gpus_per_node = 8;
  cluster.nics_per_node = platform.nics_per_node;
  cluster.nccl = std::make_shared<const NcclPlatform>(platform);
  return cluster;
}

/// Asks `use` of a collective over `members` in equal chunks, and returns the answer. A tree is
/// offered to all_reduce.
template <class Use>
auto with_request(const Cluster& cluster, const std::vector<int>& members, CollectiveKind kind,
                  std::int64_t bytes, Algorithm algorithm, const Use& use) {
  const GroupLayout layout(cluster, members);
  const DoubleTree tree(layout);
  CollectiveRequest request;
  request.kind = kind;
  request.layout = &layout;
  request.tree = kind == CollectiveKind::all_reduce ? &tree : nullptr;
  request.algorithm = algorithm;
  request.bytes = bytes;
  request.largest_chunk = bytes / layout.size();
  return use(request);
}

/// Its price in two parts, without corrections of the platform,
inline NcclPrice nccl_price(const Cluster& cluster, const std::vector<int>& members,
                            CollectiveKind kind, std::int64_t bytes) {
  return with_request(
      cluster, members, kind, bytes, Algorithm::automatic,
      [&](const CollectiveRequest& request) { return NcclPrices(cluster).collective(request); });
}
/// and as the network model has it.
inline CollectivePrice network_price(const Cluster& cluster, const std::vector<int>& members,
                                     CollectiveKind kind, std::int64_t bytes,
                                     Algorithm algorithm = Algorithm::automatic) {
  return with_request(cluster, members, kind, bytes, algorithm,
                      [&](const CollectiveRequest& request) {
                        return make_network_model(cluster)->collective(request, Time());
                      });
}

/// Ranks 0, 1, ...
inline std::vector<int> all_from_zero(int count) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

inline double sum_of(const NcclTime& time) { return time.latency_us + time.transfer_us; }

}  // namespace shardsim
