#pragma once

#include <array>

// A group of ranks that lies regularly among all ranks, without a list of its members: so that
// groups of a million ranks cost no memory.
namespace shardsim {

/// Member i is the rank at index `first` + i * `step` of a grid of ranks.
struct RankSpan {
  struct Axis {
    int size = 1;
    int stride = 0;  ///< From one rank to the next on this axis.
  };
  int base = 0;                ///< The rank at the grid's origin.
  std::array<Axis, 4> axes{};  ///< The first one changes fastest.
  int first = 0;
  int step = 1;
  int size = 1;  ///< Members.

  /// REQUIRES: 0 <= member < size.
  [[nodiscard]] int rank(int member) const {
    int index = first + member * step;
    int rank = base;
    for (const Axis& axis : axes) {
      rank += index % axis.size * axis.stride;
      index /= axis.size;
    }
    return rank;
  }
};

}  // namespace shardsim
