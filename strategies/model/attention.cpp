#include "strategies/model/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "strategies/model/row_matrix.hpp"

namespace shardsim {

namespace {

using Vector = Eigen::VectorXd;

constexpr double kSeesNothing = -std::numeric_limits<double>::infinity();

// Heads of `width` elements each, side by side in rows.
struct HeadRows {
  RowMatrix values;
  std::int64_t width = 0;
};

// The rows of queries, or of keys.
struct Rows {
  const AttentionShape& shape;
  const SequenceShares& shares;

  [[nodiscard]] std::int64_t share() const { return shape.seq_len / shares.parts; }
  [[nodiscard]] std::int64_t of_sample() const { return share() * shares.count; }
  [[nodiscard]] std::int64_t all() const { return shape.batch * of_sample(); }

  // First row of one sample's positions in a share.
  [[nodiscard]] std::int64_t first(int share_number, std::int64_t sample) const {
    return (share_number * shape.batch + sample) * share();
  }
  [[nodiscard]] std::vector<std::int64_t> positions() const {
    std::vector<std::int64_t> list;
    for (int i = 0; i < shares.count; ++i) {
      const SequencePart part{shares.first + i, shares.parts};
      for (std::int64_t local = 0; local < share(); ++local) {
        list.push_back(part.position_of(local, shape.seq_len));
      }
    }
    return list;
  }
  // One sample's head, or group, in a matrix of all rows and heads.
  [[nodiscard]] RowMatrix take(const HeadRows& all, std::int64_t sample, std::int64_t head) const {
    RowMatrix rows(of_sample(), all.width);
    for (int i = 0; i < shares.count; ++i) {
      rows.middleRows(i * share(), share()) =
          all.values.block(first(i, sample), head * all.width, share(), all.width);
    }
    return rows;
  }
  void add(HeadRows& all, std::int64_t sample, std::int64_t head, const RowMatrix& rows) const {
    for (int i = 0; i < shares.count; ++i) {
      all.values.block(first(i, sample), head * all.width, share(), all.width) +=
          rows.middleRows(i * share(), share());
    }
  }
  // Index in log_sum_exp of row `row` of a sample and head.
  [[nodiscard]] std::int64_t statistic(std::int64_t sample, std::int64_t head,
                                       std::int64_t row) const {
    const std::int64_t block = row / share() * shape.batch + sample;
    return (block * shape.num_heads + head) * share() + row % share();
  }
};

Rows queries_of(const AttentionShape& shape) { return {shape, shape.queries}; }
Rows keys_of(const AttentionShape& shape) { return {shape, shape.keys}; }

// All rows of `num_heads` heads.
HeadRows load_heads(const Rows& rows, const Heads& heads, std::int64_t num_heads,
                    std::int64_t width) {
  HeadRows all{RowMatrix(rows.all(), num_heads * width), width};
  for (std::int64_t row = 0; row < all.values.rows(); ++row) {
    for (std::int64_t i = 0; i < all.values.cols(); ++i) {
      all.values(row, i) = heads.tensor.get(row * heads.row_stride + heads.first + i);
    }
  }
  return all;
}

HeadRows zeros_like(const HeadRows& other) {
  return {RowMatrix::Zero(other.values.rows(), other.values.cols()), other.width};
}

void store_heads(const HeadRows& all, const Heads& heads) {
  for (std::int64_t row = 0; row < all.values.rows(); ++row) {
    for (std::int64_t i = 0; i < all.values.cols(); ++i) {
      heads.tensor.set(row * heads.row_stride + heads.first + i, all.values(row, i));
    }
  }
}

double scale_of(const AttentionShape& shape) {
  return shape.scale > 0.0 ? shape.scale : 1.0 / std::sqrt(static_cast<double>(shape.head_size));
}

// Scores of one sample's head, scaled and capped (s_q, s_k).
RowMatrix scores_of(const AttentionShape& shape, const RowMatrix& q, const RowMatrix& k) {
  RowMatrix scores = q * k.transpose() * scale_of(shape);
  const double cap = shape.score_cap;
  if (cap > 0.0) scores = scores.unaryExpr([cap](double z) { return cap * std::tanh(z / cap); });
  return scores;
}

// The slope of each score by what it was before its cap: 1 - (z / C)^2. Empty without a cap.
RowMatrix slope_of_cap(const AttentionShape& shape, const RowMatrix& scores) {
  if (shape.score_cap <= 0.0) return {};
  const double cap = shape.score_cap;
  return scores.unaryExpr([cap](double z) { return 1.0 - z / cap * (z / cap); });
}

// Which keys the queries of a sample see.
class Mask {
 public:
  explicit Mask(const AttentionShape& shape)
      : mask_(shape.mask),
        queries_(queries_of(shape).positions()),
        keys_(keys_of(shape).positions()) {}

  [[nodiscard]] bool leaves(std::int64_t row, std::int64_t col) const {
    return mask_.shows(queries_[to_size(row)], keys_[to_size(col)]);
  }

 private:
  AttentionMask mask_;
  std::vector<std::int64_t> queries_;
  std::vector<std::int64_t> keys_;
};

// exp(score - row's normaliser) where the mask leaves it, else 0.
void to_probabilities(RowMatrix& scores, const Vector& log_sum_exp, const Mask& mask) {
  for (std::int64_t row = 0; row < scores.rows(); ++row) {
    for (std::int64_t col = 0; col < scores.cols(); ++col) {
      scores(row, col) =
          mask.leaves(row, col) ? std::exp(scores(row, col) - log_sum_exp(row)) : 0.0;
    }
  }
}

// Per row, of the scores the mask leaves; the largest is taken out so that exp cannot overflow.
Vector log_sum_exp_of(const RowMatrix& scores, const Mask& mask) {
  Vector result(scores.rows());
  for (std::int64_t row = 0; row < scores.rows(); ++row) {
    double largest = kSeesNothing;
    for (std::int64_t col = 0; col < scores.cols(); ++col) {
      if (mask.leaves(row, col)) largest = std::max(largest, scores(row, col));
    }
    double sum = 0.0;
    for (std::int64_t col = 0; col < scores.cols(); ++col) {
      if (mask.leaves(row, col)) sum += std::exp(scores(row, col) - largest);
    }
    result(row) = sum > 0.0 ? largest + std::log(sum) : kSeesNothing;
  }
  return result;
}

// Calls `work` with the number of a sample, a head and its group.
template <class Work>
void for_each_head(const AttentionShape& shape, Work&& work) {
  for (std::int64_t sample = 0; sample < shape.batch; ++sample) {
    for (std::int64_t head = 0; head < shape.num_heads; ++head) {
      work(sample, head, head / (shape.num_heads / shape.num_groups));
    }
  }
}

// `row`: elements of all heads in a row.
void require_heads(const Rows& rows, const Heads& heads, std::int64_t row, const char* what) {
  require_size("attention", what, heads.tensor.numel(), rows.all() * heads.row_stride);
  const std::int64_t end = heads.first + row;
  if (end > heads.row_stride) require_size("attention", what, end, heads.row_stride);
}

// Elements, of the rows that take part.
struct Touched {
  std::int64_t q = 0;  // Or its gradient, and so on.
  std::int64_t y = 0;
  std::int64_t k = 0;
  std::int64_t v = 0;
  std::int64_t statistics = 0;  // In log_sum_exp.
};
Touched touched(const AttentionShape& shape, const AttentionWork& work) {
  const auto elements = [&](std::int64_t rows, std::int64_t of_row) {
    return checked_product({shape.batch, rows, of_row});
  };
  return {.q = elements(work.query_rows, shape.q_row()),
          .y = elements(work.query_rows, shape.y_row()),
          .k = elements(work.key_rows, shape.k_row()),
          .v = elements(work.key_rows, shape.v_row()),
          .statistics = elements(work.query_rows, shape.num_heads)};
}

// `width`: elements of a head over all products, of which each costs 2 flops per pair and head.
ComputeOp attention_op(const char* name, KernelFamily family, DType dtype,
                       const AttentionShape& shape, const AttentionWork& work, std::int64_t width,
                       std::int64_t bytes) {
  const std::int64_t heads = checked_product({shape.batch, shape.num_heads});
  const std::int64_t flops = checked_product({width, heads, work.twice_pairs});
  const KernelShape sizes{family, work.query_rows, work.key_rows, shape.head_size, heads};
  return {name, ComputeKind::matmul, dtype, flops, bytes, sizes};
}

}  // namespace

AttentionOutput allocate_attention(Runtime& runtime, const AttentionShape& shape, DType dtype,
                                   DType y_dtype) {
  const Rows rows = queries_of(shape);
  const std::int64_t blocks = rows.shares.count * shape.batch;
  AttentionOutput out;
  out.y = new_activation(runtime, {blocks, rows.share(), shape.y_row()}, y_dtype);
  out.log_sum_exp =
      new_activation(runtime, {blocks, shape.num_heads, rows.share()}, statistics_dtype(dtype));
  return out;
}

AttentionOutput attention_forward(Runtime& runtime, const AttentionShape& shape,
                                  const QkvHeads& qkv) {
  const DType dtype = qkv.q.tensor.dtype();
  AttentionOutput out = allocate_attention(runtime, shape, dtype, dtype);
  attention_forward_into(runtime, shape, qkv, out);
  return out;
}

void attention_forward_into(Runtime& runtime, const AttentionShape& shape, const QkvHeads& qkv,
                            const AttentionOutput& out) {
  const Rows queries = queries_of(shape);
  const Rows keys = keys_of(shape);
  require_heads(queries, qkv.q, shape.q_row(), "number of elements of q");
  require_heads(keys, qkv.k, shape.k_row(), "number of elements of k");
  require_heads(keys, qkv.v, shape.v_row(), "number of elements of v");
  const DType dtype = qkv.q.tensor.dtype();
  const AttentionWork work = shape.work();
  const Touched moved = touched(shape, work);
  const std::int64_t bytes = size_of(dtype) * (moved.q + moved.k + moved.v) +
                             size_of(out.y.dtype()) * moved.y +
                             size_of(out.log_sum_exp.dtype()) * moved.statistics;
  const ComputeOp op = attention_op("attention", KernelFamily::attention_forward, dtype, shape,
                                    work, shape.head_size + shape.value_width(), bytes);
  runtime.compute(op, [&] {
    const HeadRows q_values = load_heads(queries, qkv.q, shape.num_heads, shape.head_size);
    const HeadRows k_values = load_heads(keys, qkv.k, shape.num_groups, shape.head_size);
    const HeadRows v_values = load_heads(keys, qkv.v, shape.num_groups, shape.value_width());
    const Mask mask(shape);
    HeadRows y{RowMatrix::Zero(queries.all(), shape.y_row()), shape.value_width()};
    for_each_head(shape, [&](std::int64_t sample, std::int64_t head, std::int64_t group) {
      RowMatrix p = scores_of(shape, queries.take(q_values, sample, head),
                              keys.take(k_values, sample, group));
      const Vector log_sum_exp = log_sum_exp_of(p, mask);
      to_probabilities(p, log_sum_exp, mask);
      queries.add(y, sample, head, p * keys.take(v_values, sample, group));
      for (std::int64_t row = 0; row < queries.of_sample(); ++row) {
        out.log_sum_exp.set(queries.statistic(sample, head, row), log_sum_exp(row));
      }
    });
    store(out.y, {y.values.data(), to_size(y.values.size())});
  });
}

void merge_attention(Runtime& runtime, const AttentionShape& shape, const AttentionOutput& part,
                     const AttentionOutput& sum) {
  require_size("attention", "number of elements of y", sum.y.numel(), part.y.numel());
  const Touched moved = touched(shape, shape.work());
  const std::int64_t bytes = size_of(sum.y.dtype()) * 3 * moved.y +
                             size_of(sum.log_sum_exp.dtype()) * 3 * moved.statistics;
  runtime.compute(memory_op("attention_merge", sum.y.dtype(), bytes), [&] {
    const Rows queries = queries_of(shape);
    const Heads new_heads{part.y, shape.y_row(), 0};
    const Heads old_heads{sum.y, shape.y_row(), 0};
    const HeadRows added = load_heads(queries, new_heads, shape.num_heads, shape.value_width());
    const HeadRows before = load_heads(queries, old_heads, shape.num_heads, shape.value_width());
    HeadRows merged = zeros_like(before);
    for_each_head(shape, [&](std::int64_t sample, std::int64_t head, std::int64_t) {
      const RowMatrix from = queries.take(added, sample, head);
      RowMatrix to = queries.take(before, sample, head);
      for (std::int64_t row = 0; row < queries.of_sample(); ++row) {
        const std::int64_t at = queries.statistic(sample, head, row);
        const double theirs = part.log_sum_exp.get(at);
        if (theirs == kSeesNothing) continue;
        const double ours = sum.log_sum_exp.get(at);
        const double largest = std::max(ours, theirs);
        const double both =
            largest + std::log(std::exp(ours - largest) + std::exp(theirs - largest));
        to.row(row) = to.row(row) * std::exp(ours - both) + from.row(row) * std::exp(theirs - both);
        sum.log_sum_exp.set(at, both);
      }
      queries.add(merged, sample, head, to);
    });
    store_heads(merged, old_heads);
  });
}

void attention_backward(Runtime& runtime, const AttentionShape& shape, const QkvHeads& qkv,
                        const AttentionOutput& forward, const Tensor& dy, const QkvHeads& gradients,
                        bool adds_to_dq) {
  const Rows queries = queries_of(shape);
  const Rows keys = keys_of(shape);
  require_heads(queries, gradients.q, shape.q_row(), "number of elements of dq");
  require_heads(keys, gradients.k, shape.k_row(), "number of elements of dk");
  require_heads(keys, gradients.v, shape.v_row(), "number of elements of dv");
  require_size("attention backward", "number of elements of dy", dy.numel(), forward.y.numel());
  const DType dtype = qkv.q.tensor.dtype();
  const AttentionWork work = shape.work();
  const Touched moved = touched(shape, work);
  // Reads q, k, v, y, dy; writes dq, dk, dv.
  const std::int64_t bytes = size_of(dtype) * (moved.q + 2 * moved.y + 2 * moved.k + 2 * moved.v) +
                             size_of(gradients.q.tensor.dtype()) * (adds_to_dq ? 2 : 1) * moved.q +
                             size_of(forward.log_sum_exp.dtype()) * moved.statistics;
  const ComputeOp op =
      attention_op("attention_backward", KernelFamily::attention_backward, dtype, shape, work,
                   3 * shape.head_size + 2 * shape.value_width(), bytes);
  runtime.compute(op, [&] {
    const std::int64_t value = shape.value_width();
    const Heads y_heads{forward.y, shape.y_row(), 0};
    const Heads dy_heads{dy, shape.y_row(), 0};
    const HeadRows q_values = load_heads(queries, qkv.q, shape.num_heads, shape.head_size);
    const HeadRows k_values = load_heads(keys, qkv.k, shape.num_groups, shape.head_size);
    const HeadRows v_values = load_heads(keys, qkv.v, shape.num_groups, value);
    const HeadRows y_values = load_heads(queries, y_heads, shape.num_heads, value);
    const HeadRows dy_values = load_heads(queries, dy_heads, shape.num_heads, value);
    const Mask mask(shape);
    HeadRows dq_values = zeros_like(q_values);
    if (adds_to_dq) {
      dq_values = load_heads(queries, gradients.q, shape.num_heads, shape.head_size);
    }
    HeadRows dk_values = zeros_like(k_values);
    HeadRows dv_values = zeros_like(v_values);
    for_each_head(shape, [&](std::int64_t sample, std::int64_t head, std::int64_t group) {
      const RowMatrix q_here = queries.take(q_values, sample, head);
      const RowMatrix k_here = keys.take(k_values, sample, group);
      Vector log_sum_exp(queries.of_sample());
      for (std::int64_t row = 0; row < queries.of_sample(); ++row) {
        log_sum_exp(row) = forward.log_sum_exp.get(queries.statistic(sample, head, row));
      }
      RowMatrix p = scores_of(shape, q_here, k_here);
      const RowMatrix slope = slope_of_cap(shape, p);
      to_probabilities(p, log_sum_exp, mask);
      const RowMatrix d_out = queries.take(dy_values, sample, head);  // (s_q, d_v)
      // Sum over columns of p * dp, which is the same as the row's product of y and dy.
      const Vector row_sum =
          d_out.cwiseProduct(queries.take(y_values, sample, head)).rowwise().sum();
      RowMatrix d_scores = d_out * keys.take(v_values, sample, group).transpose();  // dp (s_q, s_k)
      d_scores.colwise() -= row_sum;
      d_scores = d_scores.cwiseProduct(p) * scale_of(shape);
      if (shape.score_cap > 0.0) d_scores = d_scores.cwiseProduct(slope);
      queries.add(dq_values, sample, head, d_scores * k_here);
      keys.add(dk_values, sample, group, d_scores.transpose() * q_here);
      keys.add(dv_values, sample, group, p.transpose() * d_out);
    });
    store_heads(dq_values, gradients.q);
    store_heads(dk_values, gradients.k);
    store_heads(dv_values, gradients.v);
  });
}

}  // namespace shardsim
