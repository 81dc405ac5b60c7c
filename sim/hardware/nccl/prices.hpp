#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "sim/hardware/nccl/tuning.hpp"
#include "sim/hardware/network_model.hpp"

// What NCCL's cost model and its constants say that an operation costs, in two parts: one that the
// bytes take, and one that is there without any. Corrections of the platform are not in it: they
// act on the parts, and are fitted to them.
namespace shardsim {

struct NcclPrice {
  double latency_us = 0.0;
  double transfer_us = 0.0;
  Algorithm algorithm = Algorithm::ring;  ///< Along which traffic is counted.
  bool far = false;                       ///< Between nodes.
};

/// The price with what the platform's overrides say of its tier, in microseconds.
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
  // One for all groups that lie alike.
  std::map<std::tuple<int, int, int, int, CollectiveKind>, NcclTuning> tunings_;
};

}  // namespace shardsim
