#include "sim/kernel/narrow_float.hpp"

#include <array>
#include <cmath>
#include <limits>

#include <catch2/catch.hpp>

// K1: formats of 8 and 4 bits, against their lists of numbers.
namespace shardsim::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

int num_codes(const NarrowFormat& format) {
  return 1 << (1 + format.exponent_bits + format.mantissa_bits);
}

// The finite number that is nearest; of two, that with the even code.
int nearest_code(double magnitude, const NarrowFormat& format) {
  int best = 0;
  double least = kInfinity;
  for (int code = 0; code < num_codes(format) / 2; ++code) {
    const double distance =
        std::fabs(from_narrow(static_cast<std::uint8_t>(code), format) - magnitude);
    if (distance < least || (distance == least && code % 2 == 0)) {
      least = distance;
      best = code;
    }
  }
  return best;
}

}  // namespace

TEST_CASE("K1: every code of 8 and 4 bits stands for itself") {
  for (const NarrowFormat& format : {kE4m3, kE5m2, kE2m1}) {
    int num_finite = 0;
    for (int code = 0; code < num_codes(format); ++code) {
      const double value = from_narrow(static_cast<std::uint8_t>(code), format);
      if (std::isnan(value)) {
        CHECK((to_narrow(value, format) & 3) == 3);
        continue;
      }
      if (std::isinf(value)) {
        CHECK(from_narrow(to_narrow(value, format), format) ==
              std::copysign(format.largest, value));
        continue;
      }
      ++num_finite;
      CHECK(std::fabs(value) <= format.largest);
      CHECK(to_narrow(value, format) == code);
    }
    CHECK(num_finite == (format.has_infinity ? 248 : format.has_nan ? 254 : 16));
  }
}

TEST_CASE("K1: the numbers of the formats are those of their definitions") {
  // 2^-9 and 2^-6 are the smallest of e4m3, 2^-16 and 2^-14 of e5m2.
  CHECK(from_narrow(0x01, kE4m3) == 0x1p-9);
  CHECK(from_narrow(0x08, kE4m3) == 0x1p-6);
  CHECK(from_narrow(0x38, kE4m3) == 1.0);
  CHECK(from_narrow(0x7E, kE4m3) == 448.0);
  CHECK(std::isnan(from_narrow(0x7F, kE4m3)));
  CHECK(from_narrow(0x01, kE5m2) == 0x1p-16);
  CHECK(from_narrow(0x04, kE5m2) == 0x1p-14);
  CHECK(from_narrow(0xBC, kE5m2) == -1.0);
  CHECK(from_narrow(0x7B, kE5m2) == 57344.0);
  CHECK(from_narrow(0x7C, kE5m2) == kInfinity);
  CHECK(std::isnan(from_narrow(0x7D, kE5m2)));
  constexpr std::array kOfE2m1 = {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0};
  for (std::size_t code = 0; code < kOfE2m1.size(); ++code) {
    CHECK(from_narrow(static_cast<std::uint8_t>(code), kE2m1) == kOfE2m1.at(code));
    CHECK(from_narrow(static_cast<std::uint8_t>(code + 8), kE2m1) == -kOfE2m1.at(code));
  }
}

TEST_CASE("K1: conversions take the nearest number, ties the even code, and saturate") {
  for (const NarrowFormat& format : {kE4m3, kE5m2, kE2m1}) {
    const int finite = nearest_code(format.largest, format);
    for (int code = 0; code < finite; ++code) {
      const double low = from_narrow(static_cast<std::uint8_t>(code), format);
      const double high = from_narrow(static_cast<std::uint8_t>(code + 1), format);
      const double middle = (low + high) / 2.0;
      for (const double value : {middle, std::nextafter(middle, low), std::nextafter(middle, high),
                                 low, high, low + (high - low) / 3.0, low + (high - low) * 0.7}) {
        CHECK(to_narrow(value, format) == nearest_code(value, format));
        CHECK(to_narrow(-value, format) == nearest_code(value, format) + num_codes(format) / 2);
      }
    }
    for (const double large : {format.largest * 1.01, 1e30, kInfinity}) {
      CHECK(from_narrow(to_narrow(large, format), format) == format.largest);
      CHECK(from_narrow(to_narrow(-large, format), format) == -format.largest);
    }
    CHECK(to_narrow(1e-300, format) == 0);
  }
  CHECK(to_narrow(kNan, kE4m3) == 0x7F);
  CHECK(to_narrow(kNan, kE2m1) == 7);
}

TEST_CASE("K1: E8M0 is the smallest power of two that is not below") {
  for (int code = 1; code < 255; ++code) {
    const double value = from_e8m0(static_cast<std::uint8_t>(code));
    CHECK(value == std::ldexp(1.0, code - 127));
    const auto exact = static_cast<float>(value);
    CHECK(to_e8m0(exact) == code);
    CHECK(to_e8m0(std::nextafter(exact, 0.0F)) == code);
    if (code < 254) CHECK(to_e8m0(std::nextafter(exact, 1e38F)) == code + 1);
  }
  CHECK(to_e8m0(0.0F) == 0);
  CHECK(to_e8m0(std::numeric_limits<float>::max()) == 254);
}

TEST_CASE("K1: rounding by chance takes a neighbour, in proportion to the way to it") {
  for (const NarrowFormat& format : {kE4m3, kE5m2, kE2m1}) {
    for (int code = 0; code + 1 < num_codes(format) / 2; ++code) {
      const double low = from_narrow(static_cast<std::uint8_t>(code), format);
      const double high = from_narrow(static_cast<std::uint8_t>(code + 1), format);
      if (!(high <= format.largest)) continue;  // Infinite, or NaN.
      for (const int eighths : {0, 1, 3, 5, 7}) {
        const double value = low + (high - low) * eighths / 8.0;
        CAPTURE(code, eighths);
        const double share = eighths / 8.0;
        CHECK(to_narrow_by_chance(value, format, share) == code);
        CHECK(to_narrow_by_chance(value, format, 0.999) == code);
        if (eighths == 0) continue;
        CHECK(to_narrow_by_chance(value, format, share - 0.001) == code + 1);
        const int negative = code + 1 + num_codes(format) / 2;
        CHECK(to_narrow_by_chance(-value, format, share - 0.001) == negative);
      }
    }
    CHECK(from_narrow(to_narrow_by_chance(2.0 * format.largest, format, 0.5), format) ==
          format.largest);
    CHECK(to_narrow_by_chance(kNan, format, 0.5) == to_narrow(kNan, format));
  }
}

}  // namespace shardsim::test
