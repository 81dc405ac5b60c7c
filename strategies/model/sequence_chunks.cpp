#include "strategies/model/sequence_chunks.hpp"

#include <limits>

namespace shardsim {

std::int64_t SequenceChunks::squares() const {
  const std::int64_t last = length(count() - 1);
  return checked_sum({checked_product({count() - 1, size, size}), checked_product({last, last})});
}

std::int64_t SequenceChunks::cubes() const {
  const std::int64_t last = length(count() - 1);
  return checked_sum(
      {checked_product({count() - 1, size, size, size}), checked_product({last, last, last})});
}

std::int64_t checked_sum(std::initializer_list<std::int64_t> terms) {
  std::int64_t sum = 0;
  for (const std::int64_t term : terms) {
    if (__builtin_add_overflow(sum, term, &sum)) {
      // A product that does not fit either says so.
      return checked_product({std::numeric_limits<std::int64_t>::max(), 2});
    }
  }
  return sum;
}

}  // namespace shardsim
