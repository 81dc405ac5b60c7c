#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

// The allowed range of a whole number of a foreign file. Each reader gives one, so that no file
// yields a zero, a negative number or a product beyond 64 bits: importers divide by sizes.
namespace shardsim {

struct ForeignRange {
  std::int64_t least;
  std::int64_t most;

  [[nodiscard]] constexpr bool has(std::int64_t value) const {
    return least <= value && value <= most;
  }
  [[nodiscard]] std::string words() const {
    return fmt::format("a whole number from {} to {}", least, most);
  }
};

/// A width, a length, a number of tokens.
inline constexpr ForeignRange kForeignSize = {1, 1'000'000'000'000};
/// Ranks, heads, microbatches, sequences of a rank. The product of three fits into 64 bits.
inline constexpr ForeignRange kForeignDegree = {1, std::int64_t{1} << 20};
/// A count that may be 0.
inline constexpr ForeignRange kForeignCount = {0, std::int64_t{1} << 20};
/// Any number that is never a divisor. A double holds all of them.
inline constexpr ForeignRange kForeignNumber = {-9'000'000'000'000'000, 9'000'000'000'000'000};

}  // namespace shardsim
