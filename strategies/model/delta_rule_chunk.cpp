#include "strategies/model/delta_rule_chunk.hpp"

#include <cmath>

namespace shardsim {

namespace {

// k k^T D below the diagonal, which beta turns into A.
RowMatrix undamped(const DeltaChunk& chunk) {
  RowMatrix products = (chunk.k * chunk.k.transpose()).cwiseProduct(decays_between(chunk.sums));
  products.triangularView<Eigen::Upper>().setZero();
  return products;
}

// e^G beta k, W's right side.
RowMatrix decayed_keys(const DeltaChunk& chunk) {
  const ColumnVector factor = chunk.beta.cwiseProduct(chunk.sums.array().exp().matrix());
  return factor.asDiagonal() * chunk.k;
}

double last_decay(const DeltaChunk& chunk) { return std::exp(chunk.sums(chunk.sums.size() - 1)); }

// Gradients by o and by S behind the chunk. Returns that of N, and leaves in d_state what o and the
// decay of S give to S ahead.
RowMatrix outer_backward(const DeltaChunk& chunk, const RowMatrix& values, const RowMatrix& state,
                         const RowMatrix& d_output, RowMatrix& d_state, DeltaChunk& gradient) {
  const ColumnVector grown = chunk.sums.array().exp().matrix();
  const ColumnVector left = decays_to_end(chunk.sums);
  const RowMatrix decays = decays_between(chunk.sums);
  const RowMatrix scores = (chunk.q * chunk.k.transpose()).cwiseProduct(decays);
  const RowMatrix d_scores = d_output * values.transpose();
  const RowMatrix d_products = d_scores.cwiseProduct(decays);
  // o = e^G q S + scores N.
  const RowMatrix d_grown_q = grown.asDiagonal() * d_output * state.transpose();
  gradient.q = d_grown_q + d_products * chunk.k;
  gradient.k = d_products.transpose() * chunk.q;
  gradient.sums = d_grown_q.cwiseProduct(chunk.q).rowwise().sum();
  add_decay_slopes(d_scores.cwiseProduct(scores), gradient.sums);
  // S behind = e^(G_r) S + (k e^(G_r - G))^T N.
  const RowMatrix d_left_k = left.asDiagonal() * values * d_state.transpose();
  gradient.k += d_left_k;
  const ColumnVector slopes = d_left_k.cwiseProduct(chunk.k).rowwise().sum();
  const Eigen::Index last = slopes.size() - 1;
  gradient.sums -= slopes;
  gradient.sums(last) += slopes.sum() + last_decay(chunk) * d_state.cwiseProduct(state).sum();
  RowMatrix d_values = scores.transpose() * d_output + left.asDiagonal() * chunk.k * d_state;
  d_state = RowMatrix(last_decay(chunk) * d_state +
                      chunk.q.transpose() * (grown.asDiagonal() * d_output));
  return d_values;
}

// Gradients by N = U - W S, with X = (I + A)^-1: dA = -X^T (dW (beta e^G k)^T + dU (beta v)^T) X^T.
void inner_backward(const DeltaChunk& chunk, const RowMatrix& inverse, const RowMatrix& state,
                    const RowMatrix& d_values, RowMatrix& d_state, DeltaChunk& gradient) {
  const RowMatrix w = inverse * decayed_keys(chunk);
  const RowMatrix u = inverse * (chunk.beta.asDiagonal() * chunk.v);
  const RowMatrix d_w = -d_values * state.transpose();
  d_state -= w.transpose() * d_values;
  const RowMatrix d_keys = inverse.transpose() * d_w;
  const RowMatrix d_v = inverse.transpose() * d_values;
  RowMatrix d_a = -d_keys * w.transpose() - d_v * u.transpose();
  d_a.triangularView<Eigen::Upper>().setZero();
  const ColumnVector grown = chunk.sums.array().exp().matrix();
  const ColumnVector key_slopes = grown.cwiseProduct(d_keys.cwiseProduct(chunk.k).rowwise().sum());
  const RowMatrix slopes = d_a.cwiseProduct(undamped(chunk));
  gradient.beta = slopes.rowwise().sum() + key_slopes + d_v.cwiseProduct(chunk.v).rowwise().sum();
  gradient.v = chunk.beta.asDiagonal() * d_v;
  gradient.sums += chunk.beta.cwiseProduct(key_slopes);
  add_decay_slopes(chunk.beta.asDiagonal() * slopes, gradient.sums);
  const RowMatrix d_products =
      (chunk.beta.asDiagonal() * d_a).cwiseProduct(decays_between(chunk.sums));
  gradient.k += d_products * chunk.k + d_products.transpose() * chunk.k +
                chunk.beta.cwiseProduct(grown).asDiagonal() * d_keys;
}

}  // namespace

RowMatrix delta_inverse(const DeltaChunk& chunk) {
  const RowMatrix a = chunk.beta.asDiagonal() * undamped(chunk);
  const Eigen::Index r = a.rows();
  return a.triangularView<Eigen::UnitLower>().solve(RowMatrix::Identity(r, r));
}

RowMatrix delta_values(const DeltaChunk& chunk, const RowMatrix& inverse, const RowMatrix& state) {
  const RowMatrix w = inverse * decayed_keys(chunk);
  return inverse * (chunk.beta.asDiagonal() * chunk.v) - w * state;
}

RowMatrix delta_output(const DeltaChunk& chunk, const RowMatrix& values, const RowMatrix& state) {
  const RowMatrix scores = (chunk.q * chunk.k.transpose()).cwiseProduct(decays_between(chunk.sums));
  const ColumnVector grown = chunk.sums.array().exp().matrix();
  return grown.asDiagonal() * (chunk.q * state) + scores * values;
}

RowMatrix delta_next_state(const DeltaChunk& chunk, const RowMatrix& values,
                           const RowMatrix& state) {
  const ColumnVector left = decays_to_end(chunk.sums);
  return last_decay(chunk) * state + chunk.k.transpose() * (left.asDiagonal() * values);
}

DeltaChunk delta_chunk_backward(const DeltaChunk& chunk, const RowMatrix& inverse,
                                const RowMatrix& state, const RowMatrix& d_output,
                                RowMatrix& d_state) {
  DeltaChunk gradient;
  const RowMatrix values = delta_values(chunk, inverse, state);
  const RowMatrix d_values = outer_backward(chunk, values, state, d_output, d_state, gradient);
  inner_backward(chunk, inverse, state, d_values, d_state, gradient);
  return gradient;
}

}  // namespace shardsim
