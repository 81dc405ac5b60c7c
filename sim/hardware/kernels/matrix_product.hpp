#pragma once

#include <cstdint>

#include "sim/hardware/compute_op.hpp"
#include "sim/hardware/device.hpp"

// The price of a matrix product: tiles, in waves over the multiprocessors. Sources: NVIDIA, "Matrix
// Multiplication Background User's Guide" (tile and wave quantization); constants: device.kernels.
namespace shardsim {

/// Seconds of `shape.batch` products (m, k) (k, n) in one kernel, without its launch. `bytes`: all
/// operands and results, read and written once; the excess over the operands is the results'.
/// The larger of the bound by memory and the best of a few tiles, each with its waves counted
/// whole. Where one wave does not fill the device, k may be split among multiprocessors.
/// REQUIRES: device.kernels, peak_flops_per_s > 0.
[[nodiscard]] double matrix_product_seconds(const Device& device, double peak_flops_per_s,
                                            std::int64_t element_bytes, const KernelShape& shape,
                                            std::int64_t bytes);

}  // namespace shardsim
