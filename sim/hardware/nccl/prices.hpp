#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "sim/hardware/nccl/platform.hpp"
#include "sim/hardware/nccl/tuning.hpp"
#include "sim/hardware/network_model.hpp"

// The price of an operation by NCCL's cost model and its constants, in two parts: the time of the
// bytes, and the latency. It excludes corrections of the platform: they act on the parts, and are
// fitted to them.
namespace shardsim {

struct NcclPrice {
  double latency_us = 0.0;
  double transfer_us = 0.0;
  Algorithm algorithm = Algorithm::ring;  ///< Traffic is counted along it.
  bool far = false;                       ///< Between nodes.
};

/// The price with the platform's overrides for its tier, in microseconds.
[[nodiscard]] double corrected_us(const NcclOverrides& overrides, const NcclPrice& price);

class NcclPrices {
 public:
  /// REQUIRES: cluster.nccl. Throws UsageError E0403 where the machine is unknown to the model.
  explicit NcclPrices(const Cluster& cluster);

  /// REQUIRES: two members or more. Throws UsageError E0407 where the overrides leave NCCL nothing
  /// to choose.
  [[nodiscard]] NcclPrice collective(const CollectiveRequest& request);
  /// One message between two ranks of the world. REQUIRES: they are not the same.
  [[nodiscard]] NcclPrice message(int source, int destination, std::int64_t bytes) const;

  [[nodiscard]] const NcclPlatform& platform() const { return platform_; }

 private:
  [[nodiscard]] double oversubscription(const GroupLayout& layout) const;
  // `peers`: ranks that share a NIC.
  [[nodiscard]] NcclPrice exchanged(const CollectiveRequest& request, double peers) const;
  [[nodiscard]] NcclPrice chosen(const CollectiveRequest& request);
  const NcclTuning& tuning_of(const GroupLayout& layout, CollectiveKind kind);

  Cluster cluster_;
  NcclPlatform platform_;
  // One for all groups with the same placement.
  std::map<std::tuple<int, int, int, int, CollectiveKind>, NcclTuning> tunings_;
};

// --- Sends and receives ------------------------------------------------------------------------

// NCCL's cost model lacks them: a launch, one hop, and the bytes over the slowest link they share.
// Inferred from its mechanics, see the sources of NcclTable::launch and
// NcclTable::point_to_point_hop.

/// The bytes that the busiest rank moves in one direction, and their links.
struct NcclExchange {
  double near_bytes = 0.0;  ///< Over NVLink.
  double far_bytes = 0.0;   ///< Over its NIC: its own, or its share of one that GPUs share.
  bool far = false;         ///< Whether any peer is on another node.
};

/// launch + hop, in microseconds.
[[nodiscard]] double exchange_latency_us(const NcclExchange& exchange);
/// The longer of near bytes / NVLink and far bytes / NIC share, in microseconds: the two links work
/// at the same time. `peers_per_nic`: ranks of a node that send through one NIC.
[[nodiscard]] double exchange_transfer_us(const NcclPlatform& platform,
                                          const NcclExchange& exchange, double peers_per_nic);

}  // namespace shardsim
