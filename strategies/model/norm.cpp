#include "strategies/model/norm.hpp"

#include <cmath>

namespace shardsim {

namespace {

using Values = std::vector<double>;

// One row of layer norm's backward: with n = (x - mean) * rstd and g = dy * weight,
// dx = (g - mean(g) - n * mean(g n)) * rstd.
void layer_norm_backward_row(std::span<const double> dy, std::span<const double> x,
                             std::span<const double> weight, double mean, double rstd,
                             std::span<double> dx, std::span<double> dweight,
                             std::span<double> dbias) {
  double mean_g = 0.0;
  double mean_gn = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double normed = (x[i] - mean) * rstd;
    mean_g += dy[i] * weight[i];
    mean_gn += dy[i] * weight[i] * normed;
    dweight[i] += dy[i] * normed;
    dbias[i] += dy[i];
  }
  mean_g /= static_cast<double>(x.size());
  mean_gn /= static_cast<double>(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double normed = (x[i] - mean) * rstd;
    dx[i] = (dy[i] * weight[i] - mean_g - normed * mean_gn) * rstd;
  }
}

// The same without mean and bias: dx = (g - n * mean(g n)) * rstd.
void rms_norm_backward_row(std::span<const double> dy, std::span<const double> x,
                           std::span<const double> weight, double rstd, std::span<double> dx,
                           std::span<double> dweight) {
  double mean_gn = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    mean_gn += dy[i] * weight[i] * x[i] * rstd;
    dweight[i] += dy[i] * x[i] * rstd;
  }
  mean_gn /= static_cast<double>(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    dx[i] = (dy[i] * weight[i] - x[i] * rstd * mean_gn) * rstd;
  }
}

}  // namespace

NormOutput layer_norm_forward(Runtime& runtime, const Tensor& x, const Tensor& weight,
                              const Tensor& bias, double epsilon) {
  const std::int64_t rows = num_rows(x);
  const std::int64_t h = last_dim(x);
  require_size("layer norm", "size of the weight", weight.numel(), h);
  require_size("layer norm", "size of the bias", bias.numel(), h);
  NormOutput out;
  out.y = runtime.allocate(MemoryCategory::activations, x.shape(), x.dtype());
  out.statistics =
      runtime.allocate(MemoryCategory::activations, Shape{rows, 2}, statistics_dtype(x.dtype()));
  const std::int64_t bytes = x.num_bytes() + weight.num_bytes() + bias.num_bytes() +
                             out.y.num_bytes() + out.statistics.num_bytes();
  runtime.compute(memory_op("layer_norm", x.dtype(), bytes, KernelFamily::norm), [&] {
    Values values = values_of(x);
    const Values scale = values_of(weight);
    const Values shift = values_of(bias);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::span<double> v(values.data() + row * h, to_size(h));
      double mean = 0.0;
      for (const double value : v) mean += value;
      mean /= static_cast<double>(h);
      double variance = 0.0;
      for (const double value : v) variance += (value - mean) * (value - mean);
      variance /= static_cast<double>(h);
      const double rstd = 1.0 / std::sqrt(variance + epsilon);
      for (std::size_t i = 0; i < v.size(); ++i) v[i] = (v[i] - mean) * rstd * scale[i] + shift[i];
      out.statistics.set(2 * row, mean);
      out.statistics.set(2 * row + 1, rstd);
    }
    store(out.y, values);
  });
  return out;
}

Tensor layer_norm_backward(Runtime& runtime, const Tensor& dy, const Tensor& x,
                           const Tensor& weight, const Tensor& statistics,
                           const Tensor& weight_gradient, const Tensor& bias_gradient) {
  const std::int64_t rows = num_rows(x);
  const std::int64_t h = last_dim(x);
  require_size("layer norm backward", "number of elements of dy", dy.numel(), x.numel());
  require_size("layer norm backward", "size of the weight's gradient", weight_gradient.numel(), h);
  require_size("layer norm backward", "size of the bias's gradient", bias_gradient.numel(), h);
  Tensor dx = runtime.allocate(MemoryCategory::activations, x.shape(), x.dtype());
  const std::int64_t bytes = dy.num_bytes() + x.num_bytes() + weight.num_bytes() +
                             statistics.num_bytes() + dx.num_bytes() +
                             2 * (weight_gradient.num_bytes() + bias_gradient.num_bytes());
  runtime.compute(
      memory_op("layer_norm_backward", x.dtype(), bytes, KernelFamily::norm_backward), [&] {
        const Values dy_values = values_of(dy);
        const Values x_values = values_of(x);
        const Values scale = values_of(weight);
        Values dx_values(x_values.size());
        Values dweight(scale.size());
        Values dbias(scale.size());
        for (std::int64_t row = 0; row < rows; ++row) {
          layer_norm_backward_row({dy_values.data() + row * h, to_size(h)},
                                  {x_values.data() + row * h, to_size(h)}, scale,
                                  statistics.get(2 * row), statistics.get(2 * row + 1),
                                  {dx_values.data() + row * h, to_size(h)}, dweight, dbias);
        }
        store(dx, dx_values);
        add_values(weight_gradient, dweight);
        add_values(bias_gradient, dbias);
      });
  return dx;
}

NormOutput rms_norm_forward(Runtime& runtime, const Tensor& x, const Tensor& weight,
                            double epsilon) {
  const std::int64_t rows = num_rows(x);
  const std::int64_t h = last_dim(x);
  require_size("rms norm", "size of the weight", weight.numel(), h);
  NormOutput out;
  out.y = runtime.allocate(MemoryCategory::activations, x.shape(), x.dtype());
  out.statistics =
      runtime.allocate(MemoryCategory::activations, Shape{rows}, statistics_dtype(x.dtype()));
  const std::int64_t bytes =
      x.num_bytes() + weight.num_bytes() + out.y.num_bytes() + out.statistics.num_bytes();
  runtime.compute(memory_op("rms_norm", x.dtype(), bytes, KernelFamily::norm), [&] {
    Values values = values_of(x);
    const Values scale = values_of(weight);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::span<double> v(values.data() + row * h, to_size(h));
      double mean_square = 0.0;
      for (const double value : v) mean_square += value * value;
      mean_square /= static_cast<double>(h);
      const double rstd = 1.0 / std::sqrt(mean_square + epsilon);
      for (std::size_t i = 0; i < v.size(); ++i) v[i] *= rstd * scale[i];
      out.statistics.set(row, rstd);
    }
    store(out.y, values);
  });
  return out;
}

Tensor rms_norm_backward(Runtime& runtime, const Tensor& dy, const Tensor& x, const Tensor& weight,
                         const Tensor& statistics, const Tensor& weight_gradient) {
  const std::int64_t rows = num_rows(x);
  const std::int64_t h = last_dim(x);
  require_size("rms norm backward", "number of elements of dy", dy.numel(), x.numel());
  require_size("rms norm backward", "size of the weight's gradient", weight_gradient.numel(), h);
  Tensor dx = runtime.allocate(MemoryCategory::activations, x.shape(), x.dtype());
  const std::int64_t bytes = dy.num_bytes() + x.num_bytes() + weight.num_bytes() +
                             statistics.num_bytes() + dx.num_bytes() +
                             2 * weight_gradient.num_bytes();
  runtime.compute(
      memory_op("rms_norm_backward", x.dtype(), bytes, KernelFamily::norm_backward), [&] {
        const Values dy_values = values_of(dy);
        const Values x_values = values_of(x);
        const Values scale = values_of(weight);
        Values dx_values(x_values.size());
        Values dweight(scale.size());
        for (std::int64_t row = 0; row < rows; ++row) {
          rms_norm_backward_row({dy_values.data() + row * h, to_size(h)},
                                {x_values.data() + row * h, to_size(h)}, scale, statistics.get(row),
                                {dx_values.data() + row * h, to_size(h)}, dweight);
        }
        store(dx, dx_values);
        add_values(weight_gradient, dweight);
      });
  return dx;
}

}  // namespace shardsim
