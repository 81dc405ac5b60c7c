#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "sim/kernel/narrow_float.hpp"

#include "backends/runtime.hpp"

#include "strategies/model/row_matrix.hpp"

// Matrices to quantize, and rounding by lists of all numbers of a format.
namespace shardsim::test {

// Numbers of very different size, as a function of their place.
inline RowMatrix numbers(std::int64_t rows, std::int64_t width, int seed = 0) {
  RowMatrix x(rows, width);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < width; ++j) {
      const auto place = static_cast<double>(7 * i + 13 * j + seed);
      x(i, j) = std::sin(place) * std::exp2(std::fmod(place * 0.37, 12.0) - 6.0);
    }
  }
  return x;
}

inline Tensor tensor_of(Runtime& runtime, const RowMatrix& x, DType dtype = DType::fp64) {
  const Tensor tensor = new_activation(runtime, {x.rows(), x.cols()}, dtype);
  store(tensor, values_of(x));
  return tensor;
}

// All numbers of a format from zero up; a number's place is its code.
inline std::vector<double> numbers_of(const NarrowFormat& format) {
  std::vector<double> numbers;
  const int codes = 1 << (format.exponent_bits + format.mantissa_bits);
  for (int code = 0; code < codes; ++code) {
    const double number = from_narrow(static_cast<std::uint8_t>(code), format);
    if (number <= format.largest) numbers.push_back(number);  // Neither infinite nor NaN.
  }
  return numbers;
}

// The nearest number of the format; of two, the one with the even code.
inline double nearest_number(double value, const std::vector<double>& numbers) {
  const double size = std::fabs(value);
  const auto above = std::lower_bound(numbers.begin(), numbers.end(), size);
  if (above == numbers.begin()) return 0.0;
  const auto below = above - 1;
  if (above == numbers.end()) return std::copysign(*below, value);
  const double up = *above - size;
  const double down = size - *below;
  const bool is_up = up == down ? (above - numbers.begin()) % 2 == 0 : up < down;
  return std::copysign(is_up ? *above : *below, value);
}

// Small whole numbers: their sums are exact in any order.
inline RowMatrix whole_numbers(std::int64_t rows, std::int64_t width, int seed) {
  RowMatrix x(rows, width);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < width; ++j) {
      x(i, j) = static_cast<double>((5 * i + 11 * j + seed) % 31 - 15);
    }
  }
  return x;
}

}  // namespace shardsim::test
