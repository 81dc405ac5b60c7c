#include "strategies/model/layer.hpp"

#include <string>

#include "sim/kernel/error.hpp"

namespace shardsim {

std::int64_t checked_product(std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) {
      throw LimitError("E0307", "an operation's count of flops or bytes does not fit in 64 bits",
                       "use a shorter sequence or a smaller microbatch");
    }
  }
  return product;
}

ComputeOp matmul_op(const char* name, DType dtype, std::int64_t m, std::int64_t n, std::int64_t k,
                    std::int64_t bytes, KernelFamily family) {
  const std::int64_t flops = checked_product({2, m, n, k});
  return {name, ComputeKind::matmul, dtype, flops, bytes, {family, m, n, k}};
}

ComputeOp memory_op(const char* name, DType dtype, std::int64_t bytes, KernelFamily family) {
  return {name, ComputeKind::memory_bound, dtype, 0, bytes, {family}};
}

std::int64_t last_dim(const Tensor& tensor) { return tensor.shape()[tensor.shape().rank() - 1]; }

std::int64_t num_rows(const Tensor& tensor) {
  std::int64_t rows = 1;
  for (int axis = 0; axis + 1 < tensor.shape().rank(); ++axis) rows *= tensor.shape()[axis];
  return rows;
}

Shape with_last(const Shape& shape, std::int64_t last) {
  if (shape.rank() == 1) return {last};
  if (shape.rank() == 2) return {shape[0], last};
  if (shape.rank() == 3) return {shape[0], shape[1], last};
  return {shape[0], shape[1], shape[2], last};
}

void require_size(const char* layer, const char* what, std::int64_t actual, std::int64_t expected) {
  if (actual == expected) return;
  throw UsageError("E0611", concat(layer, ": ", what, " is ", actual, ", expected ", expected),
                   "give the layer the shapes that its header states");
}

std::vector<double> values_of(const Tensor& tensor) {
  std::vector<double> values(to_size(tensor.numel()));
  load(tensor, values);
  return values;
}

void add_values(const Tensor& tensor, std::span<const double> values) {
  std::vector<double> sums = values_of(tensor);
  for (std::size_t i = 0; i < values.size(); ++i) sums[i] += values[i];
  store(tensor, sums);
}

void add_in_place(Runtime& runtime, const Tensor& x, const Tensor& y) {
  require_size("add", "number of elements", x.numel(), y.numel());
  const std::int64_t bytes = x.num_bytes() + 2 * y.num_bytes();
  const ComputeOp op = memory_op("add", y.dtype(), bytes, KernelFamily::residual);
  runtime.compute(op, [&] { add_values(y, values_of(x)); });
}

namespace {

void scale(Runtime& runtime, const Tensor& from, double factor, const Tensor& to) {
  const std::int64_t bytes = from.num_bytes() + to.num_bytes();
  runtime.compute(memory_op("scale", from.dtype(), bytes), [&] {
    for (std::int64_t i = 0; i < from.numel(); ++i) to.set(i, factor * from.get(i));
  });
}

}  // namespace

void scale_in_place(Runtime& runtime, const Tensor& x, double factor) {
  scale(runtime, x, factor, x);
}

Tensor scaled(Runtime& runtime, const Tensor& x, double factor) {
  Tensor y = new_activation(runtime, x.shape(), x.dtype());
  scale(runtime, x, factor, y);
  return y;
}

void round_shared_sum(Runtime& runtime, const Tensor& y, SumOver sum) {
  const StochasticRounding* const drawn = StochasticRounding::active();
  if (drawn == nullptr) return;
  runtime.off_the_clock([&] {
    for (std::int64_t i = 0; i < y.numel(); ++i) {
      y.set(i, drawn->round_more(y.get(i), y.dtype(), sum));
    }
  });
}

}  // namespace shardsim
