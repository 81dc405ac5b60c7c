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

    friend bool operator==(const Axis&, const Axis&) = default;
  };
  int base = 0;                ///< The rank at the grid's origin.
  std::array<Axis, 4> axes{};  ///< The first one changes fastest.
  int first = 0;
  int step = 1;
  int size = 1;  ///< Members.

  /// Ranks 0 to size - 1.
  [[nodiscard]] static RankSpan line(int size) {
    return {.axes = {{{.size = size, .stride = 1}}}, .size = size};
  }
  /// No ranks.
  [[nodiscard]] static RankSpan none() { return {.size = 0}; }

  /// The members at `from`, `from` + `by`, ..., `count` of them. REQUIRES: these are members.
  [[nodiscard]] RankSpan part(int from, int by, int count) const {
    RankSpan span = *this;
    span.first = first + from * step;
    span.step = by * step;
    span.size = count;
    return span;
  }

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

  /// The member that `rank` is; -1: none. REQUIRES: strides are not negative, and an axis with a
  /// longer one holds all of one with a shorter.
  [[nodiscard]] int member_of(int rank) const;

  /// The span of the same form that has `rank` among its members, where such spans share all ranks
  /// of all such grids among themselves. REQUIRES: as member_of, and step > 0.
  [[nodiscard]] RankSpan around(int rank) const;

  friend bool operator==(const RankSpan&, const RankSpan&) = default;
};

}  // namespace shardsim
