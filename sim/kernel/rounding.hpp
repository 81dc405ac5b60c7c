#pragma once

#include "sim/kernel/dtype.hpp"

namespace shardsim {

/// Largest relative error of rounding to nearest: 2^-8 for bf16, 2^-11 for fp16, 2^-24 for fp32,
/// 2^-53 for fp64 and for types that are no floats.
[[nodiscard]] double unit_roundoff(DType dtype);

/// The smallest number of the format with all its digits: 2^-126, of fp16 2^-14. Below it, rounding
/// errors do not get smaller. REQUIRES: dtype is fp64, fp32, bf16 or fp16; 2^-1022 for fp64.
[[nodiscard]] double smallest_normal(DType dtype);

/// The distance between the format's numbers from `size` to the next power of two; below the normal
/// numbers, that of the subnormal ones. REQUIRES: size > 0; dtype is fp32, bf16 or fp16.
[[nodiscard]] double spacing_at(double size, DType dtype);

}  // namespace shardsim
