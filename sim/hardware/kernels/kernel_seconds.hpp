#pragma once

#include <cstdint>
#include <vector>

#include "sim/hardware/compute_op.hpp"
#include "sim/hardware/device.hpp"
#include "sim/hardware/kernels/kernel_constants.hpp"
#include "sim/hardware/software.hpp"

// Prices of the kernels that depend on shapes, with the constants of device.kernels.
//
// Matrix products are tiles, in waves over the multiprocessors. Source: NVIDIA, "Matrix
// Multiplication Background User's Guide" (tile and wave quantization). Attention is fused or not.
// Source: Dao, "FlashAttention-2" (2023), for how a fused kernel divides the work: a multiprocessor
// takes a block of queries with all keys that it sees.
namespace shardsim {

/// Seconds of `shape.batch` products (m, k) (k, n) in one kernel, without its launch. `bytes`: all
/// operands and results, read and written once; the excess over the operands is the results'.
/// The larger of the bound by memory and the best of a few tiles, each with its waves counted
/// whole. Where one wave does not fill the device, k may be split among multiprocessors.
/// REQUIRES: device.kernels, peak_flops_per_s > 0.
[[nodiscard]] double matrix_product_seconds(const Device& device, double peak_flops_per_s,
                                            double element_bytes, const KernelShape& shape,
                                            std::int64_t bytes);

/// Seconds of fused attention without its launch: forward is two products, backward five. A mask
/// shows in `flops`, which are fewer than those of the whole square; the blocks that it cuts are
/// computed whole. `kernels`: of device.kernels. REQUIRES: device.kernels, peak_flops_per_s > 0.
[[nodiscard]] double fused_attention_seconds(const Device& device, const AttentionKernels& kernels,
                                             double peak_flops_per_s, const KernelShape& shape,
                                             std::int64_t flops, std::int64_t bytes);

/// Seconds of attention that stores its scores, without launches: products of the whole square,
/// whatever the mask, and passes over it. `family` says which direction.
/// REQUIRES: device.kernels, peak_flops_per_s > 0.
[[nodiscard]] double unfused_attention_seconds(const Device& device, double peak_flops_per_s,
                                               std::int64_t element_bytes, const KernelShape& shape,
                                               const ScorePasses& passes);

// --- Prices that were asked for before ---------------------------------------------------------
// Pipelines ask for millions of a few hundred.

struct Price {
  Time device;  ///< Device::price,
  Time host;    ///< Device::issue_price.
};

/// Prices of one device, or of one that is slower by a factor, in one thread. Answers always equal
/// the device's.
class PriceCache {
 public:
  /// `device` outlives the cache and does not change.
  explicit PriceCache(const Device& device, double slowdown = 1.0);

  [[nodiscard]] Price price(const ComputeOp& op);

 private:
  struct Entry {
    ComputeOp op{};
    Price price;
    bool is_used = false;
  };

  const Device& device_;
  double slowdown_;
  std::vector<Entry> entries_;  // One per hash; a new entry replaces the old one.
};

}  // namespace shardsim
