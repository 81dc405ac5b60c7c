#include "strategies/model/head_norm.hpp"

#include <cmath>
#include <vector>

#include "backends/communicator.hpp"

namespace shardsim {

namespace {

constexpr std::int64_t kPair = 2;  // Queries and keys.

double factor_of(const SplitRows& rows, std::int64_t i) {
  return rows.weight.get(i) + (rows.is_zero_centred ? 1.0 : 0.0);
}

// [rows, 2], for sums that are summed over ranks.
Tensor new_sums(Runtime& runtime, MemoryCategory category, const SplitRows& rows) {
  return runtime.allocate(category, {num_rows(rows.x), kPair}, statistics_dtype(rows.x.dtype()));
}

// Column `column` becomes each row's sum of squares.
void add_squares(Runtime& runtime, const SplitRows& rows, std::int64_t column, const Tensor& sums) {
  const std::int64_t bytes = rows.x.num_bytes() + sums.num_bytes() / kPair;
  runtime.compute(memory_op("square_sums", rows.x.dtype(), bytes, KernelFamily::norm), [&] {
    const std::int64_t n = last_dim(rows.x);
    for (std::int64_t row = 0; row < num_rows(rows.x); ++row) {
      double sum = 0.0;
      for (std::int64_t i = 0; i < n; ++i) {
        const double x = rows.x.get(row * n + i);
        sum += x * x;
      }
      sums.set(row * kPair + column, sum);
    }
  });
}

// Column `column` of the whole rows' sums becomes their reciprocal roots.
Tensor apply_split_norm(Runtime& runtime, const SplitRows& rows, std::int64_t column,
                        double epsilon, const Tensor& sums) {
  Tensor y = new_activation(runtime, rows.x.shape(), rows.x.dtype());
  const std::int64_t bytes =
      rows.x.num_bytes() + rows.weight.num_bytes() + y.num_bytes() + 2 * sums.num_bytes() / kPair;
  runtime.compute(memory_op("split_rms_norm", rows.x.dtype(), bytes, KernelFamily::norm), [&] {
    const std::int64_t n = last_dim(rows.x);
    for (std::int64_t row = 0; row < num_rows(rows.x); ++row) {
      const std::int64_t at = row * kPair + column;
      const double mean = sums.get(at) / static_cast<double>(rows.whole);
      const double rstd = 1.0 / std::sqrt(mean + epsilon);
      sums.set(at, rstd);
      for (std::int64_t i = 0; i < n; ++i) {
        y.set(row * n + i, rows.x.get(row * n + i) * rstd * factor_of(rows, i));
      }
    }
  });
  return y;
}

// Column `column` of `sums` becomes each row's sum of dy weight x rstd; the weight's gradient is
// complete without other ranks.
void add_slopes(Runtime& runtime, const SplitRows& rows, std::int64_t column, const Tensor& dy,
                const Tensor& statistics, const Tensor& sums, const Tensor& weight_gradient) {
  const std::int64_t bytes = rows.x.num_bytes() + dy.num_bytes() + rows.weight.num_bytes() +
                             2 * sums.num_bytes() / kPair + 2 * weight_gradient.num_bytes();
  const ComputeOp op =
      memory_op("split_rms_norm_sums", rows.x.dtype(), bytes, KernelFamily::norm_backward);
  runtime.compute(op, [&] {
    const std::int64_t n = last_dim(rows.x);
    std::vector<double> dweight(to_size(n));
    for (std::int64_t row = 0; row < num_rows(rows.x); ++row) {
      const std::int64_t at = row * kPair + column;
      const double rstd = statistics.get(at);
      double sum = 0.0;
      for (std::int64_t i = 0; i < n; ++i) {
        const double slope = dy.get(row * n + i) * rows.x.get(row * n + i) * rstd;
        dweight[to_size(i)] += slope;
        sum += slope * factor_of(rows, i);
      }
      sums.set(at, sum);
    }
    add_values(weight_gradient, dweight);
  });
}

Tensor finish_split_norm(Runtime& runtime, const SplitRows& rows, std::int64_t column,
                         const Tensor& dy, const Tensor& statistics, const Tensor& sums) {
  Tensor dx = new_activation(runtime, rows.x.shape(), rows.x.dtype());
  const std::int64_t bytes = rows.x.num_bytes() + dy.num_bytes() + rows.weight.num_bytes() +
                             dx.num_bytes() + 2 * sums.num_bytes() / kPair;
  const ComputeOp op =
      memory_op("split_rms_norm_backward", rows.x.dtype(), bytes, KernelFamily::norm_backward);
  runtime.compute(op, [&] {
    const std::int64_t n = last_dim(rows.x);
    for (std::int64_t row = 0; row < num_rows(rows.x); ++row) {
      const std::int64_t at = row * kPair + column;
      const double rstd = statistics.get(at);
      const double mean = sums.get(at) / static_cast<double>(rows.whole);
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t here = row * n + i;
        dx.set(here, (dy.get(here) * factor_of(rows, i) - rows.x.get(here) * rstd * mean) * rstd);
      }
    }
  });
  return dx;
}

}  // namespace

Tensor unit_norm_forward(Runtime& runtime, const Tensor& x, std::int64_t width, double epsilon) {
  require_size("rms norm", "remainder of the width by the size of a part", last_dim(x) % width, 0);
  const std::int64_t rows = x.numel() / width;
  Tensor statistics = new_activation(runtime, {rows}, statistics_dtype(x.dtype()));
  const std::int64_t bytes = 2 * x.num_bytes() + statistics.num_bytes();
  runtime.compute(memory_op("unit_rms_norm", x.dtype(), bytes, KernelFamily::norm), [&] {
    for (std::int64_t row = 0; row < rows; ++row) {
      double sum = 0.0;
      for (std::int64_t i = row * width; i < (row + 1) * width; ++i) sum += x.get(i) * x.get(i);
      const double rstd = 1.0 / std::sqrt(sum / static_cast<double>(width) + epsilon);
      statistics.set(row, rstd);
      for (std::int64_t i = row * width; i < (row + 1) * width; ++i) x.set(i, x.get(i) * rstd);
    }
  });
  return statistics;
}

void unit_norm_backward(Runtime& runtime, const Tensor& y, const Tensor& statistics,
                        const Tensor& dy) {
  require_size("rms norm backward", "number of elements of dy", dy.numel(), y.numel());
  const std::int64_t rows = statistics.numel();
  const std::int64_t width = y.numel() / rows;
  const std::int64_t bytes = y.num_bytes() + 2 * dy.num_bytes() + statistics.num_bytes();
  const ComputeOp op =
      memory_op("unit_rms_norm_backward", y.dtype(), bytes, KernelFamily::norm_backward);
  runtime.compute(op, [&] {
    for (std::int64_t row = 0; row < rows; ++row) {
      double sum = 0.0;
      for (std::int64_t i = row * width; i < (row + 1) * width; ++i) sum += dy.get(i) * y.get(i);
      const double mean = sum / static_cast<double>(width);
      for (std::int64_t i = row * width; i < (row + 1) * width; ++i) {
        dy.set(i, (dy.get(i) - y.get(i) * mean) * statistics.get(row));
      }
    }
  });
}

SplitNormOutput split_norm_forward(Runtime& runtime, Communicator& group,
                                   const std::array<SplitRows, 2>& rows, double epsilon) {
  require_size("split rms norm", "number of rows", num_rows(rows[1].x), num_rows(rows[0].x));
  SplitNormOutput out;
  out.statistics = new_sums(runtime, MemoryCategory::activations, rows[0]);
  add_squares(runtime, rows[0], 0, out.statistics);
  add_squares(runtime, rows[1], 1, out.statistics);
  group.all_reduce(out.statistics, ReduceOp::sum, {.label = "squares of queries and keys"}).wait();
  out.y[0] = apply_split_norm(runtime, rows[0], 0, epsilon, out.statistics);
  out.y[1] = apply_split_norm(runtime, rows[1], 1, epsilon, out.statistics);
  return out;
}

std::array<Tensor, 2> split_norm_backward(Runtime& runtime, Communicator& group,
                                          const std::array<SplitRows, 2>& rows,
                                          const std::array<Tensor, 2>& dy, const Tensor& statistics,
                                          const std::array<Tensor, 2>& weight_gradients) {
  const Tensor sums = new_sums(runtime, MemoryCategory::comm, rows[0]);
  for (std::int64_t i = 0; i < kPair; ++i) {
    add_slopes(runtime, rows.at(to_size(i)), i, dy.at(to_size(i)), statistics, sums,
               weight_gradients.at(to_size(i)));
  }
  group.all_reduce(sums, ReduceOp::sum, {.label = "slopes of queries and keys"}).wait();
  return {finish_split_norm(runtime, rows[0], 0, dy[0], statistics, sums),
          finish_split_norm(runtime, rows[1], 1, dy[1], statistics, sums)};
}

}  // namespace shardsim
