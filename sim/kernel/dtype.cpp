#include "sim/kernel/dtype.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>

namespace shardsim {

namespace {

// Rounds a double to float "to odd": the last bit is set when anything was cut off. A second
// rounding to a format with at least two fewer bits is then the correct single rounding.
// Source: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums" (2008), theorem 1.
float round_to_odd(double value) {
  auto nearest = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(nearest) == value) return nearest;
  if (std::isinf(nearest)) return nearest;
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  if ((bits & 1U) != 0) return nearest;
  // `nearest` is even and inexact: step towards the value, onto the odd neighbour on its side.
  const bool away_from_zero = std::fabs(value) > std::fabs(static_cast<double>(nearest));
  bits += away_from_zero ? 1U : static_cast<std::uint32_t>(-1);
  return std::bit_cast<float>(bits);
}

constexpr std::uint32_t kFloatInfinity = 0x7F800000U;

struct DTypeRow {
  std::string_view name;
  double largest_finite;
  double unit_roundoff = 0x1p-53;
  double smallest_normal = 0x1p-1022;
};
// In the order of DType.
constexpr std::array<DTypeRow, 9> kDTypes = {
    {{"fp64", std::numeric_limits<double>::max()},
     {"fp32", std::numeric_limits<float>::max(), 0x1p-24, 0x1p-126},
     {"bf16", 0x1.FEp127, 0x1p-8, 0x1p-126},
     {"fp16", 65504.0, 0x1p-11, 0x1p-14},
     {"fp8_e4m3", 448.0},
     {"int8", 127.0},
     {"int32", std::numeric_limits<std::int32_t>::max()},
     {"int64", static_cast<double>(std::numeric_limits<std::int64_t>::max())},
     {"fp4_e2m1", 6.0}}};

const DTypeRow& row_of(DType dtype) { return kDTypes.at(static_cast<std::size_t>(dtype)); }

}  // namespace

std::string_view name_of(DType dtype) { return row_of(dtype).name; }

std::uint16_t to_bf16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > kFloatInfinity) {  // NaN: keep the sign, make it quiet.
    return static_cast<std::uint16_t>((bits >> 16U) | 0x0040U);
  }
  const std::uint32_t ties_to_even = 0x7FFFU + ((bits >> 16U) & 1U);
  return static_cast<std::uint16_t>((bits + ties_to_even) >> 16U);
}

std::uint16_t to_fp16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16U) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > kFloatInfinity) return sign | 0x7E00U;
  if (magnitude >= 0x47800000U) return sign | 0x7C00U;  // 65536 and above: infinity.
  if (magnitude < 0x38800000U) {  // Below 2^-14: subnormal; let float addition do the rounding.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;  // Unit in last place 2^-24.
    return sign | static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(shifted) - 0x3F000000U);
  }
  const std::uint32_t rebiased = magnitude - 0x38000000U;
  const std::uint32_t ties_to_even = 0x0FFFU + ((rebiased >> 13U) & 1U);
  return sign | static_cast<std::uint16_t>((rebiased + ties_to_even) >> 13U);
}

float from_fp16_bits(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t exponent = (bits >> 10U) & 0x1FU;
  const std::uint32_t mantissa = bits & 0x3FFU;
  if (exponent == 0x1FU) return std::bit_cast<float>(sign | kFloatInfinity | (mantissa << 13U));
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112U) << 23U) | (mantissa << 13U));
}

std::uint16_t to_bf16_bits(double value) { return to_bf16_bits(round_to_odd(value)); }
std::uint16_t to_fp16_bits(double value) { return to_fp16_bits(round_to_odd(value)); }

double largest_finite(DType dtype) { return row_of(dtype).largest_finite; }

double unit_roundoff(DType dtype) { return row_of(dtype).unit_roundoff; }

double smallest_normal(DType dtype) { return row_of(dtype).smallest_normal; }

double spacing_at(double size, DType dtype) {
  constexpr std::uint64_t kSignAndExponent = 0xFFF0000000000000U;
  const double with_all_digits = std::max(size, smallest_normal(dtype));
  const auto power_of_two =
      std::bit_cast<double>(std::bit_cast<std::uint64_t>(with_all_digits) & kSignAndExponent);
  return 2.0 * unit_roundoff(dtype) * power_of_two;
}

}  // namespace shardsim
