#pragma once

#include "sim/kernel/tracked.hpp"

#include "sim/hardware/nccl/selection.hpp"

// What replaces NCCL's own choices and constants: what NCCL_ALGO, NCCL_PROTO or a tuner plugin
// would say, and what a measurement on the machine itself has told (`shardsim calibrate`).
namespace shardsim {

/// Of all operations of one tier. It does not take part in NCCL's choice, which is made by NCCL's
/// own constants whatever the machine then does.
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
