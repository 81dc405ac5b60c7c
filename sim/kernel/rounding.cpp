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

double smallest_normal(DType dtype) {
  switch (dtype) {
    case DType::fp16:
      return 0x1p-14;
    case DType::bf16:
    case DType::fp32:
      return 0x1p-126;
    default:
      return 0x1p-1022;
  }
}

double spacing_at(double size, DType dtype) {
  const int exponent = std::ilogb(std::max(size, smallest_normal(dtype)));
  return 2.0 * unit_roundoff(dtype) * std::ldexp(1.0, exponent);
}

}  // namespace shardsim
