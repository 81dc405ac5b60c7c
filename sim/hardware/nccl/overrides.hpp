#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "sim/kernel/tracked.hpp"

#include "sim/hardware/collective.hpp"
#include "sim/hardware/nccl/constants.hpp"

// Replacements of NCCL's own choices and constants: by NCCL_ALGO, NCCL_PROTO or a tuner plugin, and
// by a measurement on the machine itself (`shardsim calibrate`).
namespace shardsim {

/// The choices left to NCCL, in the syntax of its own variables NCCL_ALGO and NCCL_PROTO. A list
/// separated by commas names the allowed choices or, after ^, the excluded ones. Lists of single
/// functions follow after a semicolon, each with the function and a colon before it. Only the first
/// may omit them, and is for all functions. Case does not matter.
///
///   ring,tree                         ^nvls,nvlstree                ring;allreduce:tree,nvls
///
/// Source: NCCL's user guide, variables NCCL_ALGO and NCCL_PROTO (functions since 2.24).
class NcclSelection {
 public:
  /// Everything.
  NcclSelection() : NcclSelection("", "") {}

  /// Empty texts: everything. Throws UsageError E0406 for an invalid list, or for names that NCCL
  /// or this model does not have. CollNet, SHARP in the network, may only be left out.
  NcclSelection(const std::string& algorithms, const std::string& protocols);

  /// Null, or in words which of the two lists leaves the option out. REQUIRES: a kind that NCCL has
  /// algorithms for (all_reduce, reduce_scatter, all_gather, broadcast, reduce).
  [[nodiscard]] const char* why_left_out(CollectiveKind kind, NcclAlgorithm algorithm,
                                         NcclProtocol protocol) const;

  /// As given.
  [[nodiscard]] const std::string& algorithms() const { return algorithms_; }
  [[nodiscard]] const std::string& protocols() const { return protocols_; }

  static constexpr int kFunctions = 5;
  /// One bit for each name, for each function.
  using Allowed = std::array<std::uint32_t, kFunctions>;

 private:
  std::string algorithms_;
  std::string protocols_;
  Allowed allowed_algorithms_;
  Allowed allowed_protocols_;
};

/// The correction of all operations of one tier. It does not take part in NCCL's choice: NCCL
/// chooses by its own constants, whatever the machine then does.
struct NcclCorrection {
  Tracked<double> bandwidth_factor = 1.0;  ///< Divides the time of the bytes. Above 0.
  Tracked<double> added_latency_us = 0.0;  ///< At least kLeastAddedLatency.
};

/// Every operation keeps a latency: a message's launch is 5 us, NCCL's least base 6.6.
inline constexpr double kLeastAddedLatency = -5.0;

struct NcclOverrides {
  NcclSelection selection;
  NcclCorrection inside;   ///< Groups of one node, and messages within it.
  NcclCorrection between;  ///< Groups of several nodes, and messages between them.
};

}  // namespace shardsim
