#pragma once

#include "sim/kernel/dtype.hpp"

namespace shardsim {

/// The largest finite value of a floating type; of an integer type its largest value.
[[nodiscard]] double largest_finite(DType dtype);

}  // namespace shardsim
