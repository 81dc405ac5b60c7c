#pragma once

#include <cstdint>
#include <vector>

#include "sim/kernel/time.hpp"

#include "sim/hardware/nccl/platform.hpp"
#include "sim/hardware/nccl/prices.hpp"
#include "sim/hardware/nccl/tuning.hpp"

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

inline double exchange_us(const NcclPlatform& platform, const NcclExchange& exchange,
                          double peers_per_nic) {
  return exchange_latency_us(exchange) + exchange_transfer_us(platform, exchange, peers_per_nic);
}

/// One message between two ranks, with a NIC of its own.
inline double message_us(const NcclPlatform& platform, std::int64_t bytes, bool far) {
  const auto size = static_cast<double>(bytes);
  return exchange_us(
      platform, {.near_bytes = far ? 0.0 : size, .far_bytes = far ? size : 0.0, .far = far}, 1.0);
}

/// all_to_all of `bytes_per_pair` from each member to each other one.
inline double all_to_all_us(const NcclPlatform& platform, const NcclPlacement& placement,
                            std::int64_t bytes_per_pair, int most_on_a_node) {
  // A member of a full node has the most near peers, one of the emptiest node the most far ones.
  const auto pair = static_cast<double>(bytes_per_pair);
  const NcclExchange exchange{.near_bytes = pair * (most_on_a_node - 1),
                              .far_bytes = pair * (placement.ranks - placement.gpus),
                              .far = placement.nodes > 1};
  return exchange_us(platform, exchange, static_cast<double>(most_on_a_node) / placement.nics);
}

}  // namespace shardsim
