#include "strategies/model/state_space_chunk.hpp"

#include <cmath>

namespace shardsim {

RowMatrix scan_output(const ScanChunk& chunk, const RowMatrix& state) {
  const RowMatrix scores = (chunk.c * chunk.b.transpose()).cwiseProduct(decays_between(chunk.sums));
  const ColumnVector grown = chunk.sums.array().exp().matrix();
  return scores * chunk.x + grown.asDiagonal() * (chunk.c * state.transpose());
}

RowMatrix scan_next_state(const ScanChunk& chunk, const RowMatrix& state) {
  const double last = std::exp(chunk.sums(chunk.sums.size() - 1));
  return last * state + chunk.x.transpose() * (decays_to_end(chunk.sums).asDiagonal() * chunk.b);
}

ScanChunk scan_backward(const ScanChunk& chunk, const RowMatrix& state, const RowMatrix& d_output,
                        RowMatrix& d_state) {
  const ColumnVector grown = chunk.sums.array().exp().matrix();
  const ColumnVector left = decays_to_end(chunk.sums);
  const RowMatrix decays = decays_between(chunk.sums);
  const RowMatrix scores = (chunk.c * chunk.b.transpose()).cwiseProduct(decays);
  const RowMatrix d_scores = d_output * chunk.x.transpose();
  const RowMatrix d_products = d_scores.cwiseProduct(decays);
  ScanChunk gradient;
  // y = scores X + e^G C S^T.
  const RowMatrix d_grown_c = grown.asDiagonal() * d_output * state;
  gradient.c = d_products * chunk.b + d_grown_c;
  gradient.sums = d_grown_c.cwiseProduct(chunk.c).rowwise().sum();
  add_decay_slopes(d_scores.cwiseProduct(scores), gradient.sums);
  // S behind = e^(G_r) S + X^T (e^(G_r - G) B).
  const RowMatrix d_left_b = left.asDiagonal() * chunk.x * d_state;
  gradient.b = d_products.transpose() * chunk.c + d_left_b;
  gradient.x = scores.transpose() * d_output + left.asDiagonal() * chunk.b * d_state.transpose();
  const ColumnVector slopes = d_left_b.cwiseProduct(chunk.b).rowwise().sum();
  const Eigen::Index end = slopes.size() - 1;
  const double last = std::exp(chunk.sums(end));
  gradient.sums -= slopes;
  gradient.sums(end) += slopes.sum() + last * d_state.cwiseProduct(state).sum();
  d_state = RowMatrix(last * d_state + d_output.transpose() * (grown.asDiagonal() * chunk.c));
  return gradient;
}

}  // namespace shardsim
