#pragma once

#include <cstdint>

#include "sim/hardware/nccl/cost.hpp"

// The time of an operation once NCCL has chosen how to do it. NCCL's tuner only has to rank
// algorithms: it gives a ring its full bandwidth from the first byte on, and leaves out the copy of
// a rank's own part, channels that fill up, and what differs between GPUs beside their links. Form
// and constants: docs/decisions/0088. Inside a domain an operation takes
//
//   launch + step x steps + ramp x bytes / (bytes + half) + bytes / (efficiency x bandwidth)
//          + own x own bytes
//
// with constants of the GPU and of the way in which data move. An option that is not the best of
// its way takes longer by as much as the tuner says. Ways are measured apart: where NCCL goes over
// to NVLS too early, a forced ring is faster.
namespace shardsim {

/// In microseconds.
struct NcclTime {
  double latency_us = 0.0;   ///< Whatever a link's bandwidth has no part in.
  double transfer_us = 0.0;  ///< The bytes on their links.
};

[[nodiscard]] NcclWay way_of(NcclAlgorithm algorithm);

/// A collective of cost.hpp's kinds inside one domain. `slowdown`: the tuner's time of the option
/// by that of the best one that moves data in the same way; 1 or more.
[[nodiscard]] NcclTime time_inside(const NcclPlatform& platform, const NcclPlacement& placement,
                                   const NcclQuery& call, NcclWay way, double slowdown);

/// The same between nodes: the tuner's time, and the ramp.
[[nodiscard]] NcclTime time_between(const NcclOption& option, std::int64_t bytes);

// --- Sends and receives ------------------------------------------------------------------------

/// The busiest rank moves this in one direction, over its links. NCCL's cost model lacks these.
struct NcclExchange {
  double near_bytes = 0.0;  ///< Over NVLink, to all peers together.
  double own_bytes = 0.0;   ///< Copied to itself.
  int near_peers = 0;
  double far_bytes = 0.0;  ///< Over its NIC: its own, or its share of one that GPUs share.
  bool far = false;        ///< Whether any peer is on another node.
};

/// Inside a domain as above, a step for each peer. Between nodes a launch, one hop, and the longer
/// of both links' times, since they work at once: inferred from NCCL's mechanics, see the sources
/// of NcclTable::launch and NcclTable::point_to_point_hop. `peers_per_nic`: ranks of a node that
/// send through one NIC.
[[nodiscard]] NcclTime exchange_time(const NcclPlatform& platform, const NcclExchange& exchange,
                                     double peers_per_nic);

}  // namespace shardsim
