#include "strategies/model/expert_rows.hpp"

#include <array>
#include <cstring>

#include "strategies/model/row_matrix.hpp"

namespace shardsim {

namespace {

// Calls visit(expert, first row, number of rows), passing over those without.
template <class Visitor>
void for_each_expert(const Tensor& sizes, Visitor&& visit) {
  std::int64_t first = 0;
  for (std::int64_t expert = 0; expert < sizes.numel(); ++expert) {
    const auto count = static_cast<std::int64_t>(sizes.get(expert));
    if (count > 0) visit(expert, first, count);
    first += count;
  }
}

// Calls visit(row, pair), passing over rows that only fill up.
template <class Visitor>
void for_each_pair_of(const Tensor& order, Visitor&& visit) {
  for (std::int64_t row = 0; row < order.numel(); ++row) {
    const auto pair = static_cast<std::int64_t>(order.get(row));
    if (pair != kNoPair) visit(row, pair);
  }
}

// Rows to or from places that an index names.
ComputeOp moving_op(const char* name, DType dtype, std::int64_t bytes) {
  return memory_op(name, dtype, bytes, KernelFamily::permutation);
}

double gate_of(const Tensor& gates, std::int64_t pair) {
  return gates.defined() ? gates.get(pair) : 1.0;
}
std::int64_t bytes_of_gates(const Tensor& gates) { return gates.defined() ? gates.num_bytes() : 0; }

// One kernel for all experts. It is charged as if each had the mean number of rows, rounded up: a
// price must not depend on data.
std::int64_t mean_rows(const Tensor& rows, const Tensor& sizes) {
  const std::int64_t experts = sizes.numel();
  return num_rows(rows) / experts + (num_rows(rows) % experts == 0 ? 0 : 1);
}

// `m`, `n` and `k` of one expert.
ComputeOp grouped_op(const char* name, const Tensor& rows, const Tensor& sizes,
                     std::array<std::int64_t, 3> mnk, std::int64_t flops, std::int64_t bytes,
                     KernelFamily family = KernelFamily::matrix_product) {
  const KernelShape shape{family, mnk[0], mnk[1], mnk[2], sizes.numel()};
  return {name, ComputeKind::matmul, rows.dtype(), flops, bytes, shape};
}

std::int64_t flops_of(const Tensor& rows, std::int64_t n, std::int64_t k) {
  return checked_product({2, num_rows(rows), n, k});
}

}  // namespace

void add_rows(const Tensor& rows, const Tensor& order, const Tensor& gates,
              std::int64_t experts_per_token, const Tensor& y) {
  const std::int64_t h = last_dim(rows);
  std::vector<double> sums(to_size(y.numel()));
  for_each_pair_of(order, [&](std::int64_t row, std::int64_t pair) {
    const double gate = gate_of(gates, pair);
    const std::int64_t token = pair / experts_per_token;
    for (std::int64_t i = 0; i < h; ++i) {
      sums[to_size(token * h + i)] += gate * rows.get(row * h + i);
    }
  });
  store(y, sums);
}

void copy_rows(const Tensor& x, const Tensor& order, std::int64_t experts_per_token,
               const Tensor& rows) {
  const std::int64_t bytes = last_dim(x) * size_of(x.dtype());
  for_each_pair_of(order, [&](std::int64_t row, std::int64_t pair) {
    std::memcpy(rows.data() + row * bytes, x.data() + pair / experts_per_token * bytes,
                to_size(bytes));
  });
}

void spread_rows(const Tensor& x, const Tensor& order, const Tensor& gates,
                 std::int64_t experts_per_token, const Tensor& rows) {
  const std::int64_t h = last_dim(x);
  for_each_pair_of(order, [&](std::int64_t row, std::int64_t pair) {
    const double gate = gate_of(gates, pair);
    const std::int64_t token = pair / experts_per_token;
    for (std::int64_t i = 0; i < h; ++i) rows.set(row * h + i, gate * x.get(token * h + i));
  });
}

Tensor permute_tokens(Runtime& runtime, const Tensor& x, const Tensor& order,
                      std::int64_t experts_per_token, const Tensor& gates) {
  const std::int64_t h = last_dim(x);
  Tensor rows = new_activation(runtime, {order.numel(), h}, x.dtype());
  const std::int64_t bytes = order.num_bytes() + 2 * rows.num_bytes() + bytes_of_gates(gates);
  runtime.compute(moving_op("permute_tokens", x.dtype(), bytes),
                  [&] { spread_rows(x, order, gates, experts_per_token, rows); });
  return rows;
}

Tensor permute_tokens_backward(Runtime& runtime, const Tensor& rows_gradient, const Tensor& order,
                               std::int64_t experts_per_token, const Shape& shape,
                               const Tensor& gates) {
  Tensor dx = new_activation(runtime, shape, rows_gradient.dtype());
  const std::int64_t bytes =
      order.num_bytes() + rows_gradient.num_bytes() + dx.num_bytes() + bytes_of_gates(gates);
  runtime.compute(moving_op("permute_tokens_backward", dx.dtype(), bytes),
                  [&] { add_rows(rows_gradient, order, gates, experts_per_token, dx); });
  return dx;
}

Tensor permute_tokens_backward_gates(Runtime& runtime, const Tensor& rows_gradient, const Tensor& x,
                                     const Tensor& order, const Tensor& gates) {
  const std::int64_t h = last_dim(x);
  const std::int64_t k = last_dim(gates);
  Tensor gradient = new_activation(runtime, gates.shape(), gates.dtype());
  const std::int64_t bytes =
      order.num_bytes() + 2 * rows_gradient.num_bytes() + gradient.num_bytes();
  runtime.compute(moving_op("permute_tokens_backward_gates", x.dtype(), bytes), [&] {
    for_each_pair_of(order, [&](std::int64_t row, std::int64_t pair) {
      double slope = 0.0;
      for (std::int64_t i = 0; i < h; ++i) {
        slope += rows_gradient.get(row * h + i) * x.get(pair / k * h + i);
      }
      gradient.set(pair, slope);
    });
  });
  return gradient;
}

Tensor combine_rows(Runtime& runtime, const Tensor& rows, const Tensor& order, const Tensor& gates,
                    const Shape& shape) {
  require_size("experts", "number of rows", num_rows(rows), order.numel());
  Tensor y = new_activation(runtime, shape, rows.dtype());
  const std::int64_t bytes =
      rows.num_bytes() + order.num_bytes() + gates.num_bytes() + y.num_bytes();
  runtime.compute(moving_op("combine_rows", y.dtype(), bytes),
                  [&] { add_rows(rows, order, gates, last_dim(gates), y); });
  return y;
}

Tensor sum_rows(Runtime& runtime, const Tensor& rows, const Tensor& order,
                std::int64_t experts_per_token, const Shape& shape) {
  require_size("experts", "number of rows", num_rows(rows), order.numel());
  Tensor y = new_activation(runtime, shape, rows.dtype());
  const std::int64_t bytes = rows.num_bytes() + order.num_bytes() + y.num_bytes();
  runtime.compute(moving_op("sum_rows", y.dtype(), bytes),
                  [&] { add_rows(rows, order, {}, experts_per_token, y); });
  return y;
}

Tensor sum_rows_backward(Runtime& runtime, const Tensor& dy, const Tensor& order,
                         std::int64_t experts_per_token) {
  const std::int64_t h = last_dim(dy);
  Tensor rows = new_activation(runtime, {order.numel(), h}, dy.dtype());
  const std::int64_t bytes = order.num_bytes() + 2 * rows.num_bytes();
  runtime.compute(moving_op("sum_rows_backward", dy.dtype(), bytes),
                  [&] { spread_rows(dy, order, {}, experts_per_token, rows); });
  return rows;
}

CombineGradient combine_rows_backward(Runtime& runtime, const Tensor& dy, const Tensor& rows,
                                      const Tensor& order, const Tensor& gates) {
  const std::int64_t h = last_dim(rows);
  const std::int64_t k = last_dim(gates);
  CombineGradient gradient{new_activation(runtime, rows.shape(), rows.dtype()),
                           new_activation(runtime, gates.shape(), gates.dtype())};
  const std::int64_t bytes = 3 * rows.num_bytes() + order.num_bytes() + 2 * gates.num_bytes();
  runtime.compute(moving_op("combine_rows_backward", rows.dtype(), bytes), [&] {
    for_each_pair_of(order, [&](std::int64_t row, std::int64_t pair) {
      const double gate = gates.get(pair);
      double slope = 0.0;
      for (std::int64_t i = 0; i < h; ++i) {
        const double d = dy.get(pair / k * h + i);
        slope += d * rows.get(row * h + i);
        gradient.rows.set(row * h + i, gate * d);
      }
      gradient.gates.set(pair, slope);
    });
  });
  return gradient;
}

Tensor grouped_forward(Runtime& runtime, const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& sizes) {
  const std::int64_t n = weight.shape()[1];
  const std::int64_t k = weight.shape()[2];
  require_size("experts", "size of x's rows", last_dim(x), k);
  require_size("experts", "number of sizes", sizes.numel(), weight.shape()[0]);
  Tensor y = new_activation(runtime, {num_rows(x), n}, weight.dtype());
  std::int64_t bytes = x.num_bytes() + weight.num_bytes() + sizes.num_bytes() + y.num_bytes();
  if (bias.defined()) bytes += bias.num_bytes();
  const std::array<std::int64_t, 3> mnk{mean_rows(x, sizes), n, k};
  const ComputeOp op = grouped_op("grouped_linear", x, sizes, mnk, flops_of(x, n, k), bytes);
  runtime.compute(op, [&] {
    for_each_expert(sizes, [&](std::int64_t expert, std::int64_t first, std::int64_t count) {
      RowMatrix result =
          rows_of(x, first, count, k) * rows_of(weight, expert * n, n, k).transpose();
      if (bias.defined()) result.rowwise() += rows_of(bias, expert, 1, n).row(0);
      store(y.view(first * n, {count * n}), values_of(result));
    });
  });
  return y;
}

void grouped_backward_weight(Runtime& runtime, const Tensor& dy, const Tensor& x,
                             const Tensor& sizes, const Tensor& weight_gradient) {
  const std::int64_t n = last_dim(dy);
  const std::int64_t k = last_dim(x);
  require_size("experts backward", "number of rows of dy", num_rows(dy), num_rows(x));
  require_size("experts backward", "size of the weight's gradient", weight_gradient.numel(),
               sizes.numel() * n * k);
  const std::int64_t bytes =
      x.num_bytes() + dy.num_bytes() + sizes.num_bytes() + 2 * weight_gradient.num_bytes();
  const std::array<std::int64_t, 3> mnk{n, k, mean_rows(x, sizes)};
  const ComputeOp op = grouped_op("grouped_linear_backward_weight", dy, sizes, mnk,
                                  flops_of(x, n, k), bytes, KernelFamily::weight_gradient);
  runtime.compute(op, [&] {
    for_each_expert(sizes, [&](std::int64_t expert, std::int64_t first, std::int64_t count) {
      const RowMatrix result =
          rows_of(dy, first, count, n).transpose() * rows_of(x, first, count, k);
      add_values(weight_gradient.view(expert * n * k, {n * k}), values_of(result));
    });
  });
}

void grouped_backward_bias(Runtime& runtime, const Tensor& dy, const Tensor& sizes,
                           const Tensor& bias_gradient) {
  const std::int64_t n = last_dim(dy);
  require_size("experts backward", "size of the bias's gradient", bias_gradient.numel(),
               sizes.numel() * n);
  const std::int64_t bytes = dy.num_bytes() + sizes.num_bytes() + 2 * bias_gradient.num_bytes();
  const KernelFamily family = KernelFamily::bias_gradient;
  runtime.compute(memory_op("grouped_linear_backward_bias", dy.dtype(), bytes, family), [&] {
    for_each_expert(sizes, [&](std::int64_t expert, std::int64_t first, std::int64_t count) {
      const RowMatrix result = rows_of(dy, first, count, n).colwise().sum();
      add_values(bias_gradient.view(expert * n, {n}), values_of(result));
    });
  });
}

Tensor grouped_backward_input(Runtime& runtime, const Tensor& dy, const Tensor& weight,
                              const Tensor& sizes) {
  const std::int64_t n = weight.shape()[1];
  const std::int64_t k = weight.shape()[2];
  require_size("experts backward", "size of dy's rows", last_dim(dy), n);
  Tensor dx = new_activation(runtime, {num_rows(dy), k}, dy.dtype());
  const std::int64_t bytes =
      dy.num_bytes() + weight.num_bytes() + sizes.num_bytes() + dx.num_bytes();
  const std::array<std::int64_t, 3> mnk{mean_rows(dy, sizes), k, n};
  const ComputeOp op =
      grouped_op("grouped_linear_backward_input", dy, sizes, mnk, flops_of(dy, n, k), bytes);
  runtime.compute(op, [&] {
    for_each_expert(sizes, [&](std::int64_t expert, std::int64_t first, std::int64_t count) {
      const RowMatrix result = rows_of(dy, first, count, n) * rows_of(weight, expert * n, n, k);
      store(dx.view(first * k, {count * k}), values_of(result));
    });
  });
  return dx;
}

Tensor regroup_rows(Runtime& runtime, const Tensor& rows, std::span<const std::int64_t> counts,
                    std::int64_t num_sources, bool to_experts) {
  const std::int64_t h = last_dim(rows);
  Tensor moved = new_activation(runtime, rows.shape(), rows.dtype());
  runtime.compute(moving_op("regroup_rows", rows.dtype(), 2 * rows.num_bytes()), [&] {
    const auto num_counts = static_cast<std::int64_t>(counts.size());
    const std::int64_t experts = num_counts / num_sources;
    const auto count_of = [&](std::int64_t source, std::int64_t expert) {
      return counts[to_size(source * experts + expert)];
    };
    std::vector<std::int64_t> begins(counts.size());  // Source by source.
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      begins[i] = begin;
      begin += counts[i];
    }
    const std::int64_t row_bytes = h * size_of(rows.dtype());
    std::int64_t at = 0;  // Expert by expert.
    for (std::int64_t expert = 0; expert < experts; ++expert) {
      for (std::int64_t source = 0; source < num_sources; ++source) {
        const std::int64_t there = begins[to_size(source * experts + expert)];
        const std::int64_t count = count_of(source, expert);
        if (count > 0) {
          std::memcpy(moved.data() + (to_experts ? at : there) * row_bytes,
                      rows.data() + (to_experts ? there : at) * row_bytes,
                      to_size(count * row_bytes));
        }
        at += count;
      }
    }
  });
  return moved;
}

}  // namespace shardsim
