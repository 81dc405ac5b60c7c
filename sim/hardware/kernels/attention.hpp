#pragma once

#include <cstdint>

#include "sim/hardware/compute_op.hpp"
#include "sim/hardware/device.hpp"
#include "sim/hardware/software.hpp"

// Prices of fused and unfused attention. Source: Dao, "FlashAttention-2" (2023), for how a fused
// kernel divides the work: a multiprocessor takes a block of queries with all keys that it sees.
namespace shardsim {

/// Seconds of fused attention without its launch: forward is two products, backward five. A mask
/// shows in `flops`, which are fewer than those of the whole square; the blocks that it cuts are
/// computed whole. REQUIRES: device.kernels, peak_flops_per_s > 0.
[[nodiscard]] double fused_attention_seconds(const Device& device, double peak_flops_per_s,
                                             const KernelShape& shape, std::int64_t flops,
                                             std::int64_t bytes);

/// Seconds of attention that stores its scores, without launches: products of the whole square,
/// whatever the mask, and passes over it. `family` says which direction.
/// REQUIRES: device.kernels, peak_flops_per_s > 0.
[[nodiscard]] double unfused_attention_seconds(const Device& device, double peak_flops_per_s,
                                               std::int64_t element_bytes, const KernelShape& shape,
                                               const ScorePasses& passes);

}  // namespace shardsim
