#include "strategies/model/chunk_decays.hpp"

#include <cmath>

namespace shardsim {

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
