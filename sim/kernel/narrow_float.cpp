#include "sim/kernel/narrow_float.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace shardsim {

namespace {

constexpr int kDoubleBias = 1023;
constexpr int kDoubleMantissa = 52;
constexpr std::uint64_t kDoubleSign = 0x8000000000000000U;

// REQUIRES: a number that is not below the normal doubles.
int exponent_of(double magnitude) {
  return static_cast<int>(std::bit_cast<std::uint64_t>(magnitude) >> kDoubleMantissa) - kDoubleBias;
}

// To the nearest integer, ties to even. REQUIRES: 0 <= value < 2^31.
int nearest(double value) {
  const int below = static_cast<int>(value);
  const double rest = value - below;
  if (rest > 0.5 || (rest == 0.5 && below % 2 == 1)) return below + 1;
  return below;
}

}  // namespace

double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + kDoubleBias)
                               << kDoubleMantissa);
}

std::uint8_t to_narrow(double value, const NarrowFormat& format) {
  const int magnitude_bits = format.exponent_bits + format.mantissa_bits;
  const int all_ones = (1 << magnitude_bits) - 1;
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
  const int sign = (bits & kDoubleSign) != 0 ? 1 << magnitude_bits : 0;
  if (value != value && format.has_nan) return static_cast<std::uint8_t>(sign | all_ones);
  double magnitude = std::bit_cast<double>(bits & ~kDoubleSign);
  // So written that NaN becomes the largest number, too.
  if (!(magnitude < format.largest)) magnitude = format.largest;
  const int smallest = 1 - format.bias();  // The exponent of the smallest normal numbers.
  const int exponent = std::max(smallest, exponent_of(magnitude));
  const int steps = nearest(magnitude / power_of_two(exponent - format.mantissa_bits));
  // A normal number's steps have their leading bit, which counts the exponent up by one; a number
  // that is rounded to the next power of two, by two.
  return static_cast<std::uint8_t>(sign |
                                   (((exponent - smallest) << format.mantissa_bits) + steps));
}

std::uint8_t to_narrow_by_chance(double value, const NarrowFormat& format, double chance) {
  const std::uint8_t nearest_code = to_narrow(value, format);
  const double number = std::fabs(from_narrow(nearest_code, format));
  const double size = std::min(std::fabs(value), format.largest);
  if (!(number != size)) return nearest_code;  // NaN, too.
  const auto below = static_cast<std::uint8_t>(number > size ? nearest_code - 1 : nearest_code);
  const auto above = static_cast<std::uint8_t>(below + 1);
  const double low = std::fabs(from_narrow(below, format));
  const double high = std::fabs(from_narrow(above, format));
  return chance < (size - low) / (high - low) ? above : below;
}

double from_narrow(std::uint8_t code, const NarrowFormat& format) {
  const int magnitude_bits = format.exponent_bits + format.mantissa_bits;
  const int magnitude = code & ((1 << magnitude_bits) - 1);
  const int exponent = magnitude >> format.mantissa_bits;
  const int mantissa = magnitude & ((1 << format.mantissa_bits) - 1);
  const int last = (1 << format.exponent_bits) - 1;
  const double sign = (code >> magnitude_bits) != 0 ? -1.0 : 1.0;
  if (format.has_infinity && exponent == last) {
    const double infinity = std::bit_cast<double>(std::uint64_t{0x7FF0000000000000U});
    return mantissa == 0 ? sign * infinity : sign * (infinity - infinity);
  }
  if (!format.has_infinity && format.has_nan && magnitude == (1 << magnitude_bits) - 1) {
    return std::bit_cast<double>(std::uint64_t{0x7FF8000000000000U});
  }
  const int steps = exponent == 0 ? mantissa : mantissa + (1 << format.mantissa_bits);
  const int power = std::max(exponent, 1) - format.bias() - format.mantissa_bits;
  return sign * steps * power_of_two(power);
}

std::uint8_t to_e8m0(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t exponent = bits >> 23U;
  if (exponent == 0) {  // 2^-127 is subnormal as a float.
    return (bits & 0x7FFFFFU) > 0x400000U ? 1 : 0;
  }
  const std::uint32_t up = (bits & 0x7FFFFFU) != 0 ? 1 : 0;
  return static_cast<std::uint8_t>(std::min<std::uint32_t>(exponent + up, 254));
}

double from_e8m0(std::uint8_t code) { return power_of_two(static_cast<int>(code) - 127); }

}  // namespace shardsim
