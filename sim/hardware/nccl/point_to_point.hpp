#pragma once

#include <cstdint>

#include "sim/hardware/nccl/platform.hpp"

// The price of sends and receives, which NCCL's cost model lacks: a launch, one hop, and the bytes
// over the slowest link they share. Inferred from its mechanics, see the sources of
// NcclTable::launch and NcclTable::point_to_point_hop.
namespace shardsim {

/// The bytes that the busiest rank moves in one direction, and their links.
struct NcclExchange {
  double near_bytes = 0.0;  ///< Over NVLink.
  double far_bytes = 0.0;   ///< Over its NIC: its own, or its share of one that GPUs share.
  bool far = false;         ///< Whether any peer is on another node.
};

/// launch + hop.
[[nodiscard]] double exchange_latency_us(const NcclExchange& exchange);
/// The longer of the two links, as below.
[[nodiscard]] double exchange_transfer_us(const NcclPlatform& platform,
                                          const NcclExchange& exchange, double peers_per_nic);

/// launch + hop + the longer of near bytes / NVLink and far bytes / NIC share, in microseconds. The
/// two links work at the same time. `peers_per_nic`: ranks of a node that send through one NIC.
[[nodiscard]] double exchange_us(const NcclPlatform& platform, const NcclExchange& exchange,
                                 double peers_per_nic);

/// One message between two ranks, with a NIC of its own.
[[nodiscard]] double message_us(const NcclPlatform& platform, std::int64_t bytes, bool far);

/// all_to_all of `bytes_per_pair` from each member to each other one.
[[nodiscard]] double all_to_all_us(const NcclPlatform& platform, const NcclPlacement& placement,
                                   std::int64_t bytes_per_pair, int most_on_a_node);

}  // namespace shardsim
