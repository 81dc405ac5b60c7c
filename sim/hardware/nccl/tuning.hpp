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
  /// `call`: all but its bytes. REQUIRES and throws as nccl_options().
  NcclTuning(const NcclPlatform& platform, const NcclPlacement& placement, const NcclQuery& call);

  /// As nccl_options(), of so many bytes.
  [[nodiscard]] std::vector<NcclOption> options(std::int64_t bytes) const;

  /// As nccl_choice(), among those that are `allowed`.
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
