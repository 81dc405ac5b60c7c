#include "strategies/model/sequence_chunks.hpp"

#include <cmath>
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

ColumnVector decay_sums(const ColumnVector& g) {
  ColumnVector sums = g;
  for (Eigen::Index i = 1; i < sums.size(); ++i) sums(i) += sums(i - 1);
  return sums;
}

ColumnVector decay_sums_backward(const ColumnVector& d_sums) {
  ColumnVector dg = d_sums;
  for (Eigen::Index i = dg.size() - 1; i > 0; --i) dg(i - 1) += dg(i);
  return dg;
}

RowMatrix decays_between(const ColumnVector& sums) {
  RowMatrix decays = RowMatrix::Zero(sums.size(), sums.size());
  for (Eigen::Index i = 0; i < sums.size(); ++i) {
    for (Eigen::Index j = 0; j <= i; ++j) decays(i, j) = std::exp(sums(i) - sums(j));
  }
  return decays;
}

ColumnVector decays_to_end(const ColumnVector& sums) {
  return (sums(sums.size() - 1) - sums.array()).exp().matrix();
}

void add_decay_slopes(const RowMatrix& d_product, ColumnVector& d_sums) {
  d_sums += d_product.rowwise().sum();
  d_sums -= d_product.colwise().sum().transpose();
}

}  // namespace shardsim
