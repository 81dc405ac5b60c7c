#pragma once

#include <cstdint>
#include <map>
#include <tuple>

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

}  // namespace shardsim
