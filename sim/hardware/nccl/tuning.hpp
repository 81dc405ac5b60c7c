#pragma once

#include <vector>

#include "sim/hardware/nccl/cost.hpp"

// The part of NCCL's cost model that does not depend on the size. It is worked out once per kind of
// group and collective, as NCCL does when a communicator is made.
namespace shardsim {

/// The algorithms to choose from; null: all.
using NcclAllowed = bool (*)(NcclAlgorithm);

class NcclTuning {
 public:
  /// `call`: all but its bytes. REQUIRES: check(platform) passed; two ranks or more; a kind that
  /// cost.hpp names (UsageError E0404 otherwise).
  NcclTuning(const NcclPlatform& platform, const NcclPlacement& placement, const NcclQuery& call);

  /// Every algorithm with every protocol, in the order in which NCCL resolves ties. An unavailable
  /// option has only its reason.
  [[nodiscard]] std::vector<NcclOption> options(std::int64_t bytes) const;

  /// The available one of least cost among those that are `allowed`; the first of equals. A ring
  /// with Simple always is, unless the platform's overrides leave it out: UsageError E0407 if they
  /// leave nothing.
  [[nodiscard]] NcclOption choice(std::int64_t bytes, NcclAllowed allowed = nullptr) const;

  /// Whether choice() has anything to choose from.
  [[nodiscard]] bool offers(NcclAllowed allowed) const;

 private:
  [[nodiscard]] NcclOption at_size(NcclOption option, std::int64_t bytes) const;
  // Whether a ring between nodes has reached the sizes at which its latency grows.
  [[nodiscard]] bool on_plateau(std::int64_t bytes) const;

  [[noreturn]] void refuse() const;

  NcclSelection selection_;
  NcclPlacement placement_;
  NcclQuery call_;
  int executed_channels_ = 0;
  std::vector<NcclOption> options_;  // latency and bandwidth before what the size changes
};

}  // namespace shardsim
