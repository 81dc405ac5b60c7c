#include "strategies/model/attention.hpp"

#include <cmath>

#include <Eigen/Core>

namespace shardsim {

namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Vector = Eigen::VectorXd;

// All positions of the heads as one matrix [b s, num_heads d].
Matrix load_heads(const AttentionShape& shape, const Heads& heads, std::int64_t num_heads) {
  Matrix matrix(shape.batch * shape.seq_len, num_heads * shape.head_size);
  for (std::int64_t row = 0; row < matrix.rows(); ++row) {
    for (std::int64_t i = 0; i < matrix.cols(); ++i) {
      matrix(row, i) = heads.tensor.get(row * heads.row_stride + heads.first + i);
    }
  }
  return matrix;
}

void store_heads(const Matrix& matrix, const Heads& heads) {
  for (std::int64_t row = 0; row < matrix.rows(); ++row) {
    for (std::int64_t i = 0; i < matrix.cols(); ++i) {
      heads.tensor.set(row * heads.row_stride + heads.first + i, matrix(row, i));
    }
  }
}

// Where sample `b` and head `head` lie in such a matrix, and in that of k and v.
struct Place {
  const AttentionShape& shape;
  std::int64_t sample;
  std::int64_t head;

  template <class AnyMatrix>
  auto block(AnyMatrix& matrix, std::int64_t head_index) const {
    return matrix.block(sample * shape.seq_len, head_index * shape.head_size, shape.seq_len,
                        shape.head_size);  // (s, d)
  }
  template <class AnyMatrix>
  auto of_head(AnyMatrix& matrix) const {
    return block(matrix, head);
  }
  template <class AnyMatrix>
  auto of_group(AnyMatrix& matrix) const {
    return block(matrix, head / (shape.num_heads / shape.num_groups));
  }
  // First row of log_sum_exp.
  [[nodiscard]] std::int64_t first_row() const {
    return (sample * shape.num_heads + head) * shape.seq_len;
  }
};

double scale_of(const AttentionShape& shape) {
  return 1.0 / std::sqrt(static_cast<double>(shape.head_size));
}

// Scaled scores of one head [s, s]; those above the diagonal are not meant to be read.
Matrix scores_of(const Place& place, const Matrix& q, const Matrix& k) {
  return place.of_head(q) * place.of_group(k).transpose() * scale_of(place.shape);
}

// exp(score - row's normaliser) below and on the diagonal, 0 above.
void to_probabilities(Matrix& scores, const Vector& log_sum_exp) {
  for (std::int64_t row = 0; row < scores.rows(); ++row) {
    for (std::int64_t col = 0; col < scores.cols(); ++col) {
      scores(row, col) = col <= row ? std::exp(scores(row, col) - log_sum_exp(row)) : 0.0;
    }
  }
}

// Per row, of the scores the mask leaves; the largest is taken out so that exp cannot overflow.
Vector log_sum_exp_of(const Matrix& scores) {
  Vector result(scores.rows());
  for (std::int64_t row = 0; row < scores.rows(); ++row) {
    const auto visible = scores.row(row).head(row + 1);
    const double largest = visible.maxCoeff();
    double sum = 0.0;
    for (const double score : visible) sum += std::exp(score - largest);
    result(row) = largest + std::log(sum);
  }
  return result;
}

void require_heads(const AttentionShape& shape, const Heads& heads, std::int64_t num_heads,
                   const char* what) {
  const std::int64_t rows = shape.batch * shape.seq_len;
  require_size("attention", what, heads.tensor.numel(), rows * heads.row_stride);
  const std::int64_t end = heads.first + num_heads * shape.head_size;
  if (end > heads.row_stride) require_size("attention", what, end, heads.row_stride);
}

// Elements of q (and of the output), and of k (and of v).
std::int64_t query_elements(const AttentionShape& shape) {
  return checked_product({shape.batch, shape.seq_len, shape.num_heads, shape.head_size});
}
std::int64_t key_elements(const AttentionShape& shape) {
  return checked_product({shape.batch, shape.seq_len, shape.num_groups, shape.head_size});
}

}  // namespace

AttentionOutput attention_forward(Runtime& runtime, const AttentionShape& shape, const Heads& q,
                                  const Heads& k, const Heads& v) {
  require_heads(shape, q, shape.num_heads, "number of elements of q");
  require_heads(shape, k, shape.num_groups, "number of elements of k");
  require_heads(shape, v, shape.num_groups, "number of elements of v");
  const DType dtype = q.tensor.dtype();
  AttentionOutput out;
  out.y = runtime.allocate(MemoryCategory::activations,
                           {shape.batch, shape.seq_len, shape.num_heads * shape.head_size}, dtype);
  out.log_sum_exp =
      runtime.allocate(MemoryCategory::activations, {shape.batch, shape.num_heads, shape.seq_len},
                       statistics_dtype(dtype));
  const std::int64_t bytes =
      size_of(dtype) * (2 * query_elements(shape) + 2 * key_elements(shape)) +
      out.log_sum_exp.num_bytes();
  const std::int64_t flops = checked_product({2, query_elements(shape), shape.seq_len});
  runtime.compute(matmul_op("attention", dtype, flops, bytes), [&] {
    const Matrix q_values = load_heads(shape, q, shape.num_heads);
    const Matrix k_values = load_heads(shape, k, shape.num_groups);
    const Matrix v_values = load_heads(shape, v, shape.num_groups);
    Matrix y(q_values.rows(), q_values.cols());
    for (std::int64_t sample = 0; sample < shape.batch; ++sample) {
      for (std::int64_t head = 0; head < shape.num_heads; ++head) {
        const Place place{shape, sample, head};
        Matrix p = scores_of(place, q_values, k_values);  // (s, s)
        const Vector log_sum_exp = log_sum_exp_of(p);
        to_probabilities(p, log_sum_exp);
        place.of_head(y) = p * place.of_group(v_values);
        for (std::int64_t row = 0; row < shape.seq_len; ++row) {
          out.log_sum_exp.set(place.first_row() + row, log_sum_exp(row));
        }
      }
    }
    store(out.y, {y.data(), static_cast<std::size_t>(y.size())});
  });
  return out;
}

void attention_backward(Runtime& runtime, const AttentionShape& shape, const Heads& q,
                        const Heads& k, const Heads& v, const AttentionOutput& forward,
                        const Tensor& dy, const Heads& dq, const Heads& dk, const Heads& dv) {
  require_heads(shape, dq, shape.num_heads, "number of elements of dq");
  require_heads(shape, dk, shape.num_groups, "number of elements of dk");
  require_heads(shape, dv, shape.num_groups, "number of elements of dv");
  require_size("attention backward", "number of elements of dy", dy.numel(), forward.y.numel());
  const DType dtype = q.tensor.dtype();
  // Reads q, k, v, y, dy; writes dq, dk, dv.
  const std::int64_t bytes =
      size_of(dtype) * (4 * query_elements(shape) + 4 * key_elements(shape)) +
      forward.log_sum_exp.num_bytes();
  const std::int64_t flops = checked_product({5, query_elements(shape), shape.seq_len});
  runtime.compute(matmul_op("attention_backward", dtype, flops, bytes), [&] {
    const Matrix q_values = load_heads(shape, q, shape.num_heads);
    const Matrix k_values = load_heads(shape, k, shape.num_groups);
    const Matrix v_values = load_heads(shape, v, shape.num_groups);
    const Heads whole{forward.y, q_values.cols(), 0};
    const Matrix y_values = load_heads(shape, whole, shape.num_heads);
    const Matrix dy_values = load_heads(shape, {dy, q_values.cols(), 0}, shape.num_heads);
    Matrix dq_values(q_values.rows(), q_values.cols());
    Matrix dk_values = Matrix::Zero(k_values.rows(), k_values.cols());
    Matrix dv_values = Matrix::Zero(v_values.rows(), v_values.cols());
    for (std::int64_t sample = 0; sample < shape.batch; ++sample) {
      for (std::int64_t head = 0; head < shape.num_heads; ++head) {
        const Place place{shape, sample, head};
        Vector log_sum_exp(shape.seq_len);
        for (std::int64_t row = 0; row < shape.seq_len; ++row) {
          log_sum_exp(row) = forward.log_sum_exp.get(place.first_row() + row);
        }
        Matrix p = scores_of(place, q_values, k_values);  // (s, s)
        to_probabilities(p, log_sum_exp);
        const Matrix d_out = place.of_head(dy_values);  // (s, d)
        // Sum over columns of p * dp, which is the same as the row's product of y and dy.
        const Vector row_sum = d_out.cwiseProduct(place.of_head(y_values)).rowwise().sum();
        Matrix d_scores = d_out * place.of_group(v_values).transpose();  // dp (s, s)
        d_scores.colwise() -= row_sum;
        d_scores = d_scores.cwiseProduct(p) * scale_of(shape);
        place.of_head(dq_values) = d_scores * place.of_group(k_values);
        place.of_group(dk_values) += d_scores.transpose() * place.of_head(q_values);
        place.of_group(dv_values) += p.transpose() * d_out;
      }
    }
    store_heads(dq_values, dq);
    store_heads(dk_values, dk);
    store_heads(dv_values, dv);
  });
}

}  // namespace shardsim
