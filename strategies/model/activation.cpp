#include "strategies/model/activation.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "sim/kernel/random.hpp"

#include "strategies/model/close_calls.hpp"

namespace shardsim {

namespace {

constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
constexpr double kGeluCubic = 0.044715;

// All formats can hold it; by it, backward sees that an element counts as above 0.
constexpr double kAboveZero = 0x1p-24;

double tanh_in_gelu(double x) { return std::tanh(kSqrtTwoOverPi * (x + kGeluCubic * x * x * x)); }

std::string name_of(const DropoutSite& site) {
  const std::string branch = std::string(site.branch) + ".dropout";
  return site.block < 0 ? branch : "blocks." + std::to_string(site.block) + "." + branch;
}

// to = from where it is kept, scaled up.
void mask(const Dropout& dropout, const DropoutSite& site, std::int64_t first_row,
          const Tensor& from, const Tensor& to) {
  const RandomStream random(dropout.seed, name_of(site));
  const double scale = 1.0 / (1.0 - dropout.rate);
  const std::int64_t width = last_dim(from);
  for (std::int64_t row = 0; row < num_rows(from); ++row) {
    const std::int64_t token =
        dropout.first_token + dropout.part.token_of(first_row + row, dropout.seq_len);
    for (std::int64_t i = 0; i < width; ++i) {
      const auto index = static_cast<std::uint64_t>(token * width + i);
      const bool is_kept = random.uniform(index) >= dropout.rate;
      to.set(row * width + i, is_kept ? from.get(row * width + i) * scale : 0.0);
    }
  }
}

}  // namespace

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

double gelu_tanh(double x) { return 0.5 * x * (1.0 + tanh_in_gelu(x)); }

// Derivative of gelu by the product and chain rules; tanh' = 1 - tanh^2.
double gelu_tanh_slope(double x) {
  const double t = tanh_in_gelu(x);
  const double inner_slope = kSqrtTwoOverPi * (1.0 + 3.0 * kGeluCubic * x * x);
  return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner_slope;
}

double silu(double x) { return x * sigmoid(x); }

double silu_slope(double x) {
  const double gate = sigmoid(x);
  return gate * (1.0 + x * (1.0 - gate));
}

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

void relu_forward(Runtime& runtime, const Tensor& x) {
  runtime.compute(memory_op("relu", x.dtype(), 2 * x.num_bytes(), KernelFamily::activation), [&] {
    CloseCalls* const calls = CloseCalls::active();
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const double value = x.get(i);
      const bool is_above = calls == nullptr ? value > 0.0 : calls->is_above(value);
      if (!is_above) x.set(i, 0.0);
      if (is_above && !(value > 0.0)) x.set(i, std::max(-value, kAboveZero));
    }
  });
}

void relu_backward(Runtime& runtime, const Tensor& y, const Tensor& dy) {
  require_size("relu backward", "number of elements of dy", dy.numel(), y.numel());
  const std::int64_t bytes = y.num_bytes() + 2 * dy.num_bytes();
  runtime.compute(memory_op("relu_backward", y.dtype(), bytes, KernelFamily::activation_backward),
                  [&] {
                    for (std::int64_t i = 0; i < y.numel(); ++i) {
                      if (!(y.get(i) > 0.0)) dy.set(i, 0.0);
                    }
                  });
}

Tensor gelu_forward(Runtime& runtime, const Tensor& x) {
  Tensor y = new_activation(runtime, x.shape(), x.dtype());
  runtime.compute(
      memory_op("gelu", x.dtype(), x.num_bytes() + y.num_bytes(), KernelFamily::activation), [&] {
        for (std::int64_t i = 0; i < x.numel(); ++i) y.set(i, gelu_tanh(x.get(i)));
      });
  return y;
}

void gelu_backward(Runtime& runtime, const Tensor& x, const Tensor& dy) {
  require_size("gelu backward", "number of elements of dy", dy.numel(), x.numel());
  const std::int64_t bytes = x.num_bytes() + 2 * dy.num_bytes();
  runtime.compute(memory_op("gelu_backward", x.dtype(), bytes, KernelFamily::activation_backward),
                  [&] {
                    for (std::int64_t i = 0; i < x.numel(); ++i)
                      dy.set(i, dy.get(i) * gelu_tanh_slope(x.get(i)));
                  });
}

Tensor swiglu_forward(Runtime& runtime, const Tensor& gate, const Tensor& up) {
  require_size("swiglu", "number of elements of up", up.numel(), gate.numel());
  Tensor y = new_activation(runtime, gate.shape(), gate.dtype());
  const std::int64_t bytes = gate.num_bytes() + up.num_bytes() + y.num_bytes();
  runtime.compute(memory_op("swiglu", gate.dtype(), bytes, KernelFamily::activation), [&] {
    for (std::int64_t i = 0; i < gate.numel(); ++i) {
      const double g = gate.get(i);
      y.set(i, g * sigmoid(g) * up.get(i));
    }
  });
  return y;
}

Tensor swiglu_backward(Runtime& runtime, const Tensor& gate, const Tensor& up, const Tensor& dy) {
  require_size("swiglu backward", "number of elements of dy", dy.numel(), gate.numel());
  Tensor dgate = new_activation(runtime, gate.shape(), gate.dtype());
  const std::int64_t bytes =
      gate.num_bytes() + up.num_bytes() + 2 * dy.num_bytes() + dgate.num_bytes();
  runtime.compute(
      memory_op("swiglu_backward", gate.dtype(), bytes, KernelFamily::activation_backward), [&] {
        for (std::int64_t i = 0; i < gate.numel(); ++i) {
          const double g = gate.get(i);
          const double s = sigmoid(g);
          const double d = dy.get(i);
          dgate.set(i, d * up.get(i) * s * (1.0 + g * (1.0 - s)));
          dy.set(i, d * g * s);
        }
      });
  return dgate;
}

Tensor output_gate_forward(Runtime& runtime, const Tensor& y, const Tensor& gate) {
  require_size("output gate", "number of elements of the gate", gate.numel(), y.numel());
  Tensor product = new_activation(runtime, y.shape(), y.dtype());
  const std::int64_t bytes = y.num_bytes() + gate.num_bytes() + product.num_bytes();
  runtime.compute(memory_op("output_gate", y.dtype(), bytes, KernelFamily::activation), [&] {
    for (std::int64_t i = 0; i < y.numel(); ++i) product.set(i, y.get(i) * sigmoid(gate.get(i)));
  });
  return product;
}

Tensor output_gate_backward(Runtime& runtime, const Tensor& y, const Tensor& gate,
                            const Tensor& d) {
  require_size("output gate backward", "number of elements of the gradient", d.numel(), y.numel());
  Tensor d_gate = new_activation(runtime, gate.shape(), gate.dtype());
  const std::int64_t bytes =
      y.num_bytes() + gate.num_bytes() + 2 * d.num_bytes() + d_gate.num_bytes();
  const ComputeOp op =
      memory_op("output_gate_backward", y.dtype(), bytes, KernelFamily::activation_backward);
  runtime.compute(op, [&] {
    for (std::int64_t i = 0; i < y.numel(); ++i) {
      const double s = sigmoid(gate.get(i));
      d_gate.set(i, d.get(i) * y.get(i) * s * (1.0 - s));
      d.set(i, d.get(i) * s);
    }
  });
  return d_gate;
}

void soft_cap_forward(Runtime& runtime, const Tensor& z, double cap) {
  runtime.compute(memory_op("soft_cap", z.dtype(), 2 * z.num_bytes(), KernelFamily::activation),
                  [&] {
                    for (std::int64_t i = 0; i < z.numel(); ++i) {
                      z.set(i, cap * std::tanh(z.get(i) / cap));
                    }
                  });
}

void dropout_forward(Runtime& runtime, const Dropout& dropout, const DropoutSite& site,
                     std::int64_t first_row, const Tensor& y) {
  if (dropout.rate <= 0.0) return;
  runtime.compute(memory_op("dropout", y.dtype(), 2 * y.num_bytes(), KernelFamily::dropout),
                  [&] { mask(dropout, site, first_row, y, y); });
}

Tensor dropout_backward(Runtime& runtime, const Dropout& dropout, const DropoutSite& site,
                        std::int64_t first_row, const Tensor& dy) {
  if (dropout.rate <= 0.0) return dy;
  Tensor dx = new_activation(runtime, dy.shape(), dy.dtype());
  const std::int64_t bytes = dy.num_bytes() + dx.num_bytes();
  const KernelFamily family = KernelFamily::dropout_backward;
  runtime.compute(memory_op("dropout_backward", dy.dtype(), bytes, family),
                  [&] { mask(dropout, site, first_row, dy, dx); });
  return dx;
}

}  // namespace shardsim
