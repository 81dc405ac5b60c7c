#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "sim/hardware/nccl/execution.hpp"
#include "sim/hardware/nccl/platform.hpp"
#include "sim/hardware/nccl/tuning.hpp"
#include "sim/hardware/network_model.hpp"

// The price of an operation: what NCCL's cost model chooses, and how long that takes
// (execution.hpp), in two parts. It excludes corrections of the platform: they act on the parts,
// and are fitted to them.
namespace shardsim {

struct NcclPrice : NcclTime {
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
  struct Tunings {
    NcclTuning asked;  // With the platform's selection,
    NcclTuning free;   // and without.
  };
  [[nodiscard]] NcclTime executed(const NcclOption& option, const Tunings& tunings,
                                  CollectiveKind kind, std::int64_t bytes,
                                  const GroupLayout& layout) const;
  const Tunings& tunings_of(const GroupLayout& layout, CollectiveKind kind);

  Cluster cluster_;
  NcclPlatform platform_;
  // One for all groups with the same placement.
  std::map<std::tuple<int, int, int, int, CollectiveKind>, Tunings> tunings_;
};

}  // namespace shardsim
