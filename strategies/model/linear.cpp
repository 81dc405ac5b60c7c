#include "strategies/model/linear.hpp"

#include "strategies/model/row_matrix.hpp"

namespace shardsim {

// A product that put its blocks on the stack would run off a rank's.
static_assert(EIGEN_STACK_ALLOCATION_LIMIT == 0, "set by the build file at the root");

Tensor linear_forward(Runtime& runtime, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  Tensor y = new_activation(runtime, with_last(x.shape(), weight.shape()[0]), weight.dtype());
  linear_forward_to(runtime, x, weight, bias, y);
  return y;
}

void linear_forward_to(Runtime& runtime, const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& y) {
  const std::int64_t rows = num_rows(x);
  const std::int64_t n = weight.shape()[0];
  const std::int64_t k = weight.shape()[1];
  require_size("linear", "size of x's rows", last_dim(x), k);
  require_size("linear", "size of y", y.numel(), rows * n);
  std::int64_t bytes = x.num_bytes() + weight.num_bytes() + y.num_bytes();
  if (bias.defined()) bytes += bias.num_bytes();
  runtime.compute(matmul_op("linear", weight.dtype(), rows, n, k, bytes), [&] {
    RowMatrix result = matrix_of(x) * matrix_of(weight).transpose();  // (rows, k) (k, n)
    if (bias.defined()) result.rowwise() += matrix_of(bias).row(0);
    store(y, values_of(result));
  });
}

void add_bias(Runtime& runtime, const Tensor& bias, const Tensor& y) {
  const std::int64_t n = last_dim(y);
  require_size("linear", "size of the bias", bias.numel(), n);
  const std::int64_t bytes = bias.num_bytes() + 2 * y.num_bytes();
  runtime.compute(memory_op("add_bias", y.dtype(), bytes, KernelFamily::bias), [&] {
    for (std::int64_t i = 0; i < y.numel(); ++i) y.set(i, y.get(i) + bias.get(i % n));
  });
}

void linear_backward_weight(Runtime& runtime, const Tensor& dy, const Tensor& x,
                            const Tensor& weight_gradient) {
  const std::int64_t rows = num_rows(x);
  const std::int64_t n = last_dim(dy);
  const std::int64_t k = last_dim(x);
  require_size("linear backward", "number of rows of dy", num_rows(dy), rows);
  require_size("linear backward", "size of the weight's gradient", weight_gradient.numel(), n * k);
  const std::int64_t bytes = x.num_bytes() + dy.num_bytes() + 2 * weight_gradient.num_bytes();
  const ComputeOp op = matmul_op("linear_backward_weight", dy.dtype(), n, k, rows, bytes,
                                 KernelFamily::weight_gradient);
  runtime.compute(op, [&] {
    const RowMatrix result = matrix_of(dy).transpose() * matrix_of(x);  // (n, rows) (rows, k)
    add_values(weight_gradient, values_of(result));
  });
}

void linear_backward_bias(Runtime& runtime, const Tensor& dy, const Tensor& bias_gradient) {
  require_size("linear backward", "size of the bias's gradient", bias_gradient.numel(),
               last_dim(dy));
  const std::int64_t bytes = dy.num_bytes() + 2 * bias_gradient.num_bytes();
  const KernelFamily family = KernelFamily::bias_gradient;
  runtime.compute(memory_op("linear_backward_bias", dy.dtype(), bytes, family), [&] {
    const RowMatrix result = matrix_of(dy).colwise().sum();  // (1, n)
    add_values(bias_gradient, values_of(result));
  });
}

Tensor linear_backward_input(Runtime& runtime, const Tensor& dy, const Tensor& weight, Tensor dx) {
  const bool adds = dx.defined();
  if (!adds) dx = new_activation(runtime, with_last(dy.shape(), weight.shape()[1]), dy.dtype());
  linear_backward_input_to(runtime, dy, weight, dx, adds);
  return dx;
}

void linear_backward_input_to(Runtime& runtime, const Tensor& dy, const Tensor& weight,
                              const Tensor& dx, bool adds) {
  const std::int64_t rows = num_rows(dy);
  const std::int64_t n = weight.shape()[0];
  const std::int64_t k = weight.shape()[1];
  require_size("linear backward", "size of dy's rows", last_dim(dy), n);
  require_size("linear backward", "size of dx", dx.numel(), rows * k);
  const std::int64_t bytes = dy.num_bytes() + weight.num_bytes() + (adds ? 2 : 1) * dx.num_bytes();
  runtime.compute(matmul_op("linear_backward_input", dy.dtype(), rows, k, n, bytes), [&] {
    const RowMatrix result = matrix_of(dy) * matrix_of(weight);  // (rows, n) (n, k)
    if (adds) return add_values(dx, values_of(result));
    store(dx, values_of(result));
  });
}

}  // namespace shardsim
