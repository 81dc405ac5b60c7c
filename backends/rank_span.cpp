#include "backends/rank_span.hpp"

#include <algorithm>

namespace shardsim {

int RankSpan::member_of(int rank) const {
  struct Digit {
    int stride;
    int size;
    int faster;  // Ranks of the axes that change faster, in the order of the grid.
  };
  std::array<Digit, 4> digits{};
  int faster = 1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    digits.at(i) = {axes.at(i).stride, axes.at(i).size, faster};
    faster *= axes.at(i).size;
  }
  std::ranges::sort(digits, std::ranges::greater(), &Digit::stride);
  int left = rank - base;
  int index = 0;
  for (const Digit& digit : digits) {
    if (digit.size == 1) continue;
    index += left / digit.stride * digit.faster;
    left %= digit.stride;
  }
  if ((index - first) % step != 0) return -1;
  const int member = (index - first) / step;
  return member >= 0 && member < size && this->rank(member) == rank ? member : -1;
}

RankSpan RankSpan::around(int rank) const {
  RankSpan span = *this;
  span.base = rank;
  int index = 0;
  int faster = 1;
  for (const Axis& axis : axes) {
    if (axis.size == 1) continue;
    const int place = rank / axis.stride % axis.size;
    span.base -= place * axis.stride;
    index += place * faster;
    faster *= axis.size;
  }
  // Parts follow each other, and those between two members of one belong to its neighbours.
  const int period = size * step;
  span.first = index / period * period + index % step;
  return span;
}

}  // namespace shardsim
