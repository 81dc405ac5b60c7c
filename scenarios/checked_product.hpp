#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>

namespace shardsim {

/// The product of non-negative factors, or nothing if it does not fit 64 bits.
inline std::optional<std::int64_t> product_if_fits(std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) {
      return std::nullopt;
    }
  }
  return product;
}

/// The sum of non-negative terms, or nothing if it does not fit 64 bits.
inline std::optional<std::int64_t> sum_if_fits(std::initializer_list<std::int64_t> terms) {
  std::int64_t sum = 0;
  for (const std::int64_t term : terms) {
    if (__builtin_add_overflow(sum, term, &sum)) {
      return std::nullopt;
    }
  }
  return sum;
}

}  // namespace shardsim
