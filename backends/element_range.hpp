#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace shardsim {

/// Elements [begin, end) of a buffer.
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// How many elements of [begin, end) lie in `ranges`. REQUIRES: these are disjoint.
[[nodiscard]] inline std::int64_t overlap(std::span<const ElementRange> ranges, std::int64_t begin,
                                          std::int64_t end) {
  std::int64_t sum = 0;
  for (const ElementRange& range : ranges) {
    const std::int64_t from = std::max(range.begin, begin);
    sum += std::max<std::int64_t>(std::min(range.end, end) - from, 0);
  }
  return sum;
}

}  // namespace shardsim
