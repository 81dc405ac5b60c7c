#pragma once

#include "sim/kernel/time.hpp"

namespace shardsim {

/// The rank that ends last, and whose step is that of all: of equal ranks, the first. `end_of`: the
/// time of each of `ranks`, which are in order. REQUIRES: there are some.
template <class Ranks, class EndOf>
[[nodiscard]] int last_rank(const Ranks& ranks, const EndOf& end_of) {
  int last = *ranks.begin();
  for (const int rank : ranks) {
    if (end_of(rank) > end_of(last)) last = rank;
  }
  return last;
}

}  // namespace shardsim
