#pragma once

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "sim/kernel/random.hpp"

#include "backends/runtime.hpp"

// Tensors of random numbers, and difference quotients to hold gradients against.
namespace shardsim::test {

inline Tensor zeros(const Shape& shape, DType dtype = DType::fp64) {
  return Tensor::allocate(nullptr, MemoryCategory::activations, shape, dtype, /*meta=*/false);
}

/// Values of either sign, of order one, different for every name.
inline Tensor random_tensor(std::string_view name, const Shape& shape, DType dtype = DType::fp64) {
  const Tensor tensor = zeros(shape, dtype);
  const RandomStream random(11, name);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    tensor.set(i, random.bell(static_cast<std::uint64_t>(i)));
  }
  return tensor;
}

inline Tensor tensor_of(const Shape& shape, const std::vector<double>& values,
                        DType dtype = DType::fp64) {
  const Tensor tensor = zeros(shape, dtype);
  store(tensor, values);
  return tensor;
}

inline Tensor copy_of(const Tensor& tensor) {
  const Tensor copy = zeros(tensor.shape(), tensor.dtype());
  for (std::int64_t i = 0; i < tensor.numel(); ++i) copy.set(i, tensor.get(i));
  return copy;
}

inline double dot(const Tensor& a, const Tensor& b) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < a.numel(); ++i) sum += a.get(i) * b.get(i);
  return sum;
}

inline double max_difference(const Tensor& a, const Tensor& b) {
  double worst = a.numel() == b.numel() ? 0.0 : INFINITY;
  for (std::int64_t i = 0; i < std::min(a.numel(), b.numel()); ++i) {
    worst = std::max(worst, std::fabs(a.get(i) - b.get(i)));
  }
  return worst;
}

/// The gradient of `function()` with respect to every element of `variable`, by the quotient of
/// five points. With step e it is wrong by e^4 / 30 times the fifth derivative, and by about
/// 2^-53 / e times the function of rounding.
template <class Function>
Tensor numeric_gradient(const Tensor& variable, Function&& function, double e = 1e-3) {
  const Tensor gradient = zeros(variable.shape());
  for (std::int64_t i = 0; i < variable.numel(); ++i) {
    const double value = variable.get(i);
    const auto at = [&](double offset) {
      variable.set(i, value + offset);
      return function();
    };
    const double near = at(e) - at(-e);
    const double far = at(2.0 * e) - at(-2.0 * e);
    variable.set(i, value);
    gradient.set(i, (8.0 * near - far) / (12.0 * e));
  }
  return gradient;
}

}  // namespace shardsim::test
