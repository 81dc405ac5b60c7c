#include "strategies/model/norm.hpp"

#include <cmath>
#include <utility>

namespace shardsim {

namespace {

using Values = std::vector<double>;

// A norm multiplies by these.
Values factors_of(const Tensor& weight, const NormForm& form) {
  Values factors = values_of(weight);
  if (form.is_zero_centred) {
    for (double& factor : factors) factor += 1.0;
  }
  return factors;
}

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

// Norms a row in place. Returns its mean and reciprocal standard deviation.
std::pair<double, double> layer_norm_row(std::span<double> v, const Values& weight,
                                         const Values& bias, double epsilon) {
  const auto size = static_cast<double>(v.size());
  double mean = 0.0;
  for (const double value : v) mean += value;
  mean /= size;
  double variance = 0.0;
  for (const double value : v) variance += (value - mean) * (value - mean);
  variance /= size;
  const double rstd = 1.0 / std::sqrt(variance + epsilon);
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = (v[i] - mean) * rstd * weight[i] + bias[i];
  return {mean, rstd};
}

// The same without mean and bias. Returns the reciprocal root.
double rms_norm_row(std::span<double> v, const Values& weight, double epsilon) {
  double mean_square = 0.0;
  for (const double value : v) mean_square += value * value;
  mean_square /= static_cast<double>(v.size());
  const double rstd = 1.0 / std::sqrt(mean_square + epsilon);
  for (std::size_t i = 0; i < v.size(); ++i) v[i] *= rstd * weight[i];
  return rstd;
}

}  // namespace

NormOutput norm_forward(Runtime& runtime, const Tensor& x, const Tensor& weight, const Tensor& bias,
                        double epsilon, const NormForm& form) {
  const bool has_bias = bias.defined();
  const bool is_layer = has_bias || form.is_layer;
  const char* const layer = is_layer ? "layer norm" : "rms norm";
  const std::int64_t h = weight.numel();
  require_size(layer, "remainder of the width by the size of the weight", last_dim(x) % h, 0);
  const std::int64_t rows = x.numel() / h;
  if (has_bias) require_size(layer, "size of the bias", bias.numel(), h);
  NormOutput out;
  out.y = new_activation(runtime, x.shape(), x.dtype());
  out.statistics =
      new_activation(runtime, is_layer ? Shape{rows, 2} : Shape{rows}, statistics_dtype(x.dtype()));
  std::int64_t bytes =
      x.num_bytes() + weight.num_bytes() + out.y.num_bytes() + out.statistics.num_bytes();
  if (has_bias) bytes += bias.num_bytes();
  const char* const name = is_layer ? "layer_norm" : "rms_norm";
  runtime.compute(memory_op(name, x.dtype(), bytes, KernelFamily::norm), [&] {
    Values values = values_of(x);
    const Values scale = factors_of(weight, form);
    const Values shift = has_bias ? values_of(bias) : Values(scale.size());
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::span<double> v(values.data() + row * h, to_size(h));
      if (is_layer) {
        const auto [mean, rstd] = layer_norm_row(v, scale, shift, epsilon);
        out.statistics.set(2 * row, mean);
        out.statistics.set(2 * row + 1, rstd);
      } else {
        out.statistics.set(row, rms_norm_row(v, scale, epsilon));
      }
    }
    store(out.y, values);
  });
  return out;
}

Tensor norm_backward(Runtime& runtime, const Tensor& dy, const Tensor& x, const Tensor& weight,
                     const Tensor& statistics, const Tensor& weight_gradient,
                     const Tensor& bias_gradient, const NormForm& form) {
  const bool has_bias = bias_gradient.defined();
  const bool is_layer = has_bias || form.is_layer;
  const char* const layer = is_layer ? "layer norm backward" : "rms norm backward";
  const std::int64_t h = weight.numel();
  require_size(layer, "remainder of the width by the size of the weight", last_dim(x) % h, 0);
  const std::int64_t rows = x.numel() / h;
  require_size(layer, "number of elements of dy", dy.numel(), x.numel());
  require_size(layer, "size of the weight's gradient", weight_gradient.numel(), h);
  if (has_bias) require_size(layer, "size of the bias's gradient", bias_gradient.numel(), h);
  Tensor dx = new_activation(runtime, x.shape(), x.dtype());
  std::int64_t bytes = dy.num_bytes() + x.num_bytes() + weight.num_bytes() +
                       statistics.num_bytes() + dx.num_bytes() + 2 * weight_gradient.num_bytes();
  if (has_bias) bytes += 2 * bias_gradient.num_bytes();
  const char* const name = is_layer ? "layer_norm_backward" : "rms_norm_backward";
  runtime.compute(memory_op(name, x.dtype(), bytes, KernelFamily::norm_backward), [&] {
    const Values dy_values = values_of(dy);
    const Values x_values = values_of(x);
    const Values scale = factors_of(weight, form);
    Values dx_values(x_values.size());
    Values dweight(scale.size());
    Values dbias(scale.size());
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::span<const double> dy_row(dy_values.data() + row * h, to_size(h));
      const std::span<const double> x_row(x_values.data() + row * h, to_size(h));
      const std::span<double> dx_row(dx_values.data() + row * h, to_size(h));
      if (is_layer) {
        layer_norm_backward_row(dy_row, x_row, scale, statistics.get(2 * row),
                                statistics.get(2 * row + 1), dx_row, dweight, dbias);
      } else {
        rms_norm_backward_row(dy_row, x_row, scale, statistics.get(row), dx_row, dweight);
      }
    }
    store(dx, dx_values);
    add_values(weight_gradient, dweight);
    if (has_bias) add_values(bias_gradient, dbias);
  });
  return dx;
}

}  // namespace shardsim
