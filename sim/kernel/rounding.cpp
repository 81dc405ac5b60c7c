#include "sim/kernel/rounding.hpp"

#include <algorithm>
#include <cmath>

namespace shardsim {

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return 0x1p-8;
    case DType::fp16:
      return 0x1p-11;
    case DType::fp32:
      return 0x1p-24;
    default:
      return 0x1p-53;
  }
}

double spacing_at(double size, DType dtype) {
  const int smallest_normal = dtype == DType::fp16 ? -14 : -126;
  const int exponent = std::max(std::ilogb(size), smallest_normal);
  return 2.0 * unit_roundoff(dtype) * std::ldexp(1.0, exponent);
}

}  // namespace shardsim
