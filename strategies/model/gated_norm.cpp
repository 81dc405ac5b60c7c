#include "strategies/model/gated_norm.hpp"

#include <cmath>
#include <vector>

#include "strategies/model/activation.hpp"

namespace shardsim {

namespace {

void require_gated_norm(const GatedNorm& norm, const Tensor& o, const Columns& z) {
  const char* const layer = "gated norm";
  const std::int64_t n = last_dim(o);
  require_columns(layer, "number of elements of z", z, num_rows(o), n);
  require_size(layer, "remainder of the width by the size of a part", n % norm.width, 0);
  if (norm.weight.numel() != n) {
    require_size(layer, "size of the weight", norm.weight.numel(), norm.width);
  }
}

// A part of a row, element by element.
struct GatedPart {
  const GatedNorm& norm;
  const Tensor& o;
  const Columns& z;
  std::int64_t row;
  std::int64_t first;

  [[nodiscard]] std::int64_t place(std::int64_t i) const { return row * last_dim(o) + first + i; }
  [[nodiscard]] std::int64_t weight_place(std::int64_t i) const {
    return (first + i) % norm.weight.numel();
  }
  [[nodiscard]] double weight(std::int64_t i) const { return norm.weight.get(weight_place(i)); }
  [[nodiscard]] double gate(std::int64_t i) const { return z.get(row, first + i); }
  // The number that is normed.
  [[nodiscard]] double x(std::int64_t i) const {
    return norm.gate_first ? o.get(place(i)) * silu(gate(i)) : o.get(place(i));
  }
};

// Calls `work` with each part and its number.
template <class Work>
void for_each_part(const GatedNorm& norm, const Tensor& o, const Columns& z, Work&& work) {
  std::int64_t number = 0;
  for (std::int64_t row = 0; row < num_rows(o); ++row) {
    for (std::int64_t first = 0; first < last_dim(o); first += norm.width) {
      work(GatedPart{norm, o, z, row, first}, number++);
    }
  }
}

// With n = x rstd and g the gradient of n: the mean of g n, by which all elements change.
double mean_slope(const GatedPart& part, const Tensor& dy, double rstd) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < part.norm.width; ++i) {
    const double behind = part.norm.gate_first ? 1.0 : silu(part.gate(i));
    sum += dy.get(part.place(i)) * behind * part.weight(i) * part.x(i) * rstd;
  }
  return sum / static_cast<double>(part.norm.width);
}

}  // namespace

GatedNormOutput gated_norm_forward(Runtime& runtime, const GatedNorm& norm, const Tensor& o,
                                   const Columns& z) {
  require_gated_norm(norm, o, z);
  GatedNormOutput out;
  out.y = new_activation(runtime, o.shape(), o.dtype());
  out.statistics =
      new_activation(runtime, {num_rows(o), last_dim(o) / norm.width}, statistics_dtype(o.dtype()));
  const std::int64_t bytes = o.num_bytes() + z.num_bytes() + norm.weight.num_bytes() +
                             out.y.num_bytes() + out.statistics.num_bytes();
  runtime.compute(memory_op("gated_rms_norm", o.dtype(), bytes, KernelFamily::norm), [&] {
    for_each_part(norm, o, z, [&](const GatedPart& part, std::int64_t number) {
      double sum = 0.0;
      for (std::int64_t i = 0; i < norm.width; ++i) sum += part.x(i) * part.x(i);
      const double rstd = 1.0 / std::sqrt(sum / static_cast<double>(norm.width) + norm.epsilon);
      out.statistics.set(number, rstd);
      for (std::int64_t i = 0; i < norm.width; ++i) {
        const double behind = norm.gate_first ? 1.0 : silu(part.gate(i));
        out.y.set(part.place(i), part.x(i) * rstd * part.weight(i) * behind);
      }
    });
  });
  return out;
}

Tensor gated_norm_backward(Runtime& runtime, const GatedNorm& norm, const Tensor& o,
                           const Columns& z, const Tensor& statistics, const Tensor& dy,
                           const Columns& dz, const Tensor& weight_gradient) {
  require_gated_norm(norm, o, z);
  const char* const layer = "gated norm backward";
  require_size(layer, "number of elements of dy", dy.numel(), o.numel());
  require_columns(layer, "number of elements of dz", dz, num_rows(o), last_dim(o));
  require_size(layer, "size of the weight's gradient", weight_gradient.numel(),
               norm.weight.numel());
  Tensor d_o = new_activation(runtime, o.shape(), o.dtype());
  const std::int64_t bytes = o.num_bytes() + z.num_bytes() + norm.weight.num_bytes() +
                             statistics.num_bytes() + dy.num_bytes() + d_o.num_bytes() +
                             dz.num_bytes() + 2 * weight_gradient.num_bytes();
  const ComputeOp op =
      memory_op("gated_rms_norm_backward", o.dtype(), bytes, KernelFamily::norm_backward);
  runtime.compute(op, [&] {
    std::vector<double> dweight(to_size(norm.weight.numel()));
    for_each_part(norm, o, z, [&](const GatedPart& part, std::int64_t number) {
      const double rstd = statistics.get(number);
      const double mean = mean_slope(part, dy, rstd);
      for (std::int64_t i = 0; i < norm.width; ++i) {
        const double gate = part.gate(i);
        const double d = dy.get(part.place(i));
        const double normed = part.x(i) * rstd;
        const double behind = norm.gate_first ? 1.0 : silu(gate);
        const double dx = (d * behind * part.weight(i) - normed * mean) * rstd;
        dweight[to_size(part.weight_place(i))] += d * behind * normed;
        d_o.set(part.place(i), norm.gate_first ? dx * silu(gate) : dx);
        const double d_gate =
            norm.gate_first ? dx * o.get(part.place(i)) : d * normed * part.weight(i);
        dz.set(part.row, part.first + i, d_gate * silu_slope(gate));
      }
    });
    add_values(weight_gradient, dweight);
  });
  return d_o;
}

Tensor silu_gate_forward(Runtime& runtime, const Tensor& o, const Columns& z) {
  require_columns("gate", "number of elements of z", z, num_rows(o), last_dim(o));
  Tensor y = new_activation(runtime, o.shape(), o.dtype());
  const std::int64_t bytes = o.num_bytes() + z.num_bytes() + y.num_bytes();
  runtime.compute(memory_op("silu_gate", o.dtype(), bytes, KernelFamily::activation), [&] {
    const std::int64_t n = last_dim(o);
    for (std::int64_t i = 0; i < o.numel(); ++i) y.set(i, o.get(i) * silu(z.get(i / n, i % n)));
  });
  return y;
}

Tensor silu_gate_backward(Runtime& runtime, const Tensor& o, const Columns& z, const Tensor& dy,
                          const Columns& dz) {
  const std::int64_t n = last_dim(o);
  require_columns("gate backward", "number of elements of dz", dz, num_rows(o), n);
  require_size("gate backward", "number of elements of dy", dy.numel(), o.numel());
  Tensor d_o = new_activation(runtime, o.shape(), o.dtype());
  const std::int64_t bytes =
      o.num_bytes() + z.num_bytes() + dy.num_bytes() + d_o.num_bytes() + dz.num_bytes();
  const KernelFamily family = KernelFamily::activation_backward;
  runtime.compute(memory_op("silu_gate_backward", o.dtype(), bytes, family), [&] {
    for (std::int64_t i = 0; i < o.numel(); ++i) {
      const double gate = z.get(i / n, i % n);
      d_o.set(i, dy.get(i) * silu(gate));
      dz.set(i / n, i % n, dy.get(i) * o.get(i) * silu_slope(gate));
    }
  });
  return d_o;
}

}  // namespace shardsim
