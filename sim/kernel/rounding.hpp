#pragma once

#include "sim/kernel/dtype.hpp"

namespace shardsim {

/// Largest relative error of rounding to nearest: 2^-8 for bf16, 2^-11 for fp16, 2^-24 for fp32,
/// 2^-53 for fp64, and for all that is no float.
[[nodiscard]] double unit_roundoff(DType dtype);

/// Distance between the numbers of a format from `size` on, up to the next power of two; below the
/// normal ones that of the subnormal ones. REQUIRES: size > 0; dtype is fp32, bf16 or fp16.
[[nodiscard]] double spacing_at(double size, DType dtype);

}  // namespace shardsim
