#pragma once

#include "sim/kernel/tracked.hpp"

#include "sim/hardware/nccl/selection.hpp"

// Replacements of NCCL's own choices and constants: by NCCL_ALGO, NCCL_PROTO or a tuner plugin, and
// by a measurement on the machine itself (`shardsim calibrate`).
namespace shardsim {

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
