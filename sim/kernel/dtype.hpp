#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

// Element types, their sizes, and rounding to them.
namespace shardsim {

/// fp4_e2m1 is the type of operands of products alone: no tensor has it.
enum class DType : std::uint8_t { fp64, fp32, bf16, fp16, fp8_e4m3, int8, int32, int64, fp4_e2m1 };

/// Bytes per element; of fp4_e2m1, which are half a byte, 1. A switch: a table inside a function
/// would be made at each call.
[[nodiscard]] constexpr std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::fp64:
    case DType::int64:
      return 8;
    case DType::fp32:
    case DType::int32:
      return 4;
    case DType::bf16:
    case DType::fp16:
      return 2;
    case DType::fp8_e4m3:
    case DType::int8:
    case DType::fp4_e2m1:
      return 1;
  }
  return 0;
}

/// Bits per element.
[[nodiscard]] constexpr std::int64_t element_bits(DType dtype) {
  return dtype == DType::fp4_e2m1 ? 4 : 8 * size_of(dtype);
}

[[nodiscard]] constexpr bool is_floating(DType dtype) {
  return dtype <= DType::fp8_e4m3 || dtype == DType::fp4_e2m1;
}
/// Whether arithmetic of single elements is done in this type, and not in products alone.
[[nodiscard]] constexpr bool has_arithmetic(DType dtype) { return dtype <= DType::fp16; }

/// "fp64", "bf16", ... as written in scenarios and results.
[[nodiscard]] std::string_view name_of(DType dtype);

/// Bit patterns of the 16-bit formats. Rounding is to nearest, ties to even; overflow gives
/// infinity, NaN stays NaN (quiet). Source: IEEE 754-2019 binary16; bfloat16 as in Intel's
/// "BFLOAT16 - Hardware Numerics Definition" (2018), subnormals kept.
[[nodiscard]] std::uint16_t to_bf16_bits(float value);
[[nodiscard]] inline float from_bf16_bits(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}
[[nodiscard]] std::uint16_t to_fp16_bits(float value);
[[nodiscard]] float from_fp16_bits(std::uint16_t bits);
/// From double in one rounding: going through float first could round twice.
[[nodiscard]] std::uint16_t to_bf16_bits(double value);
[[nodiscard]] std::uint16_t to_fp16_bits(double value);

/// The largest finite value of a floating type; of an integer type its largest value.
[[nodiscard]] double largest_finite(DType dtype);

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
