#pragma once

#include <cstdint>

// Floating formats of at most 8 bits, as quantized tensors have them: sign, exponent, mantissa,
// with subnormal numbers. Conversions saturate: what is too large becomes the largest number.
// Sources: Micikevicius et al., "FP8 Formats for Deep Learning" (2022); Open Compute Project, "OCP
// Microscaling Formats (MX) Specification v1.0" (2023).
namespace shardsim {

struct NarrowFormat {
  int exponent_bits;
  int mantissa_bits;
  double largest;     ///< The largest finite number.
  bool has_infinity;  ///< The last exponent is that of infinity and NaN, as in IEEE 754.
  bool has_nan;       ///< If not, NaN becomes the largest number.

  [[nodiscard]] constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};

inline constexpr NarrowFormat kE4m3{4, 3, 448.0, false, true};
inline constexpr NarrowFormat kE5m2{5, 2, 57344.0, true, true};
inline constexpr NarrowFormat kE2m1{2, 1, 6.0, false, false};

/// The code of the nearest number, ties to even, in the lowest bits; that of NaN is all bits but
/// the sign.
[[nodiscard]] std::uint8_t to_narrow(double value, const NarrowFormat& format);
/// The code of one of the two numbers around it: of the larger one if `chance` is below the share
/// of the way to it. With a uniform chance in [0, 1) that is right on the mean.
[[nodiscard]] std::uint8_t to_narrow_by_chance(double value, const NarrowFormat& format,
                                               double chance);
/// The number of a code. REQUIRES: no bits above the format's.
[[nodiscard]] double from_narrow(std::uint8_t code, const NarrowFormat& format);

/// E8M0: a power of two, 2^(code - 127). The code of the smallest one that is not below `value`;
/// of 0, 0. REQUIRES: 0 <= value, finite.
[[nodiscard]] std::uint8_t to_e8m0(float value);
[[nodiscard]] double from_e8m0(std::uint8_t code);

/// 2^exponent. REQUIRES: -1022 <= exponent <= 1023.
[[nodiscard]] double power_of_two(int exponent);

}  // namespace shardsim
