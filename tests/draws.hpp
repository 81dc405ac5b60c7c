#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <rapidcheck.h>

// Draws for properties about scenarios.
namespace shardsim::test {

using Words = std::vector<std::string>;

/// From `begin` up to but not including `end`. RapidCheck starts with small ranges, which would
/// miss values near `end`.
inline std::int64_t draw_in(std::int64_t begin, std::int64_t end) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<std::int64_t>(begin, end));
}

/// True once in `times`; shrinks to false.
inline bool once_in(int times) { return draw_in(0, times) == times - 1; }

inline std::string one_of(const Words& words) { return *rc::gen::elementOf(words); }

}  // namespace shardsim::test
