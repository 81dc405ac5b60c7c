#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

// What a whole number of a foreign file may be. Whoever reads one says which, so that no zero, no
// negative number and no product beyond 64 bits comes out of a file: importers divide by sizes.
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
/// What there may be none of.
inline constexpr ForeignRange kForeignCount = {0, std::int64_t{1} << 20};
/// Any number, which nothing is divided by. A double holds all of them.
inline constexpr ForeignRange kForeignNumber = {-9'000'000'000'000'000, 9'000'000'000'000'000};

}  // namespace shardsim
