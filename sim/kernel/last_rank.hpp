#pragma once

#include "sim/kernel/time.hpp"

namespace shardsim {

/// The rank that ends last, and whose step is that of all: of equal ranks, the lowest. `end_of`:
/// the time of each rank. REQUIRES: num_ranks > 0.
template <class EndOf>
[[nodiscard]] int last_rank(int num_ranks, const EndOf& end_of) {
  int last = 0;
  for (int rank = 1; rank < num_ranks; ++rank) {
    if (end_of(rank) > end_of(last)) last = rank;
  }
  return last;
}

}  // namespace shardsim
