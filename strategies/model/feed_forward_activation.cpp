#include "strategies/model/feed_forward_activation.hpp"

#include <algorithm>
#include <cmath>

#include "strategies/model/activation.hpp"
#include "strategies/model/close_calls.hpp"

namespace shardsim {

namespace {

// As GptOssExperts has it.
constexpr double kClampedSlope = 1.702;
constexpr double kClampedOffset = 1.0;

// The slopes of gate and up, or their values in place of them.
struct GatedPair {
  double gate;
  double up;
};

double gated_value(const ActivationForm& form, const GatedPair& x) {
  if (form.kind == Activation::geglu_tanh) return gelu_tanh(x.gate) * x.up;
  const double g = std::min(x.gate, form.limit);
  const double u = std::clamp(x.up, -form.limit, form.limit);
  return (u + kClampedOffset) * g * sigmoid(kClampedSlope * g);
}

GatedPair gated_slopes(const ActivationForm& form, const GatedPair& x) {
  if (form.kind == Activation::geglu_tanh) {
    return {gelu_tanh_slope(x.gate) * x.up, gelu_tanh(x.gate)};
  }
  const double g = std::min(x.gate, form.limit);
  const double u = std::clamp(x.up, -form.limit, form.limit);
  const double s = sigmoid(kClampedSlope * g);
  const bool gate_passes = x.gate <= form.limit;
  const bool up_passes = std::abs(x.up) <= form.limit;
  return {gate_passes ? (u + kClampedOffset) * s * (1.0 + kClampedSlope * g * (1.0 - s)) : 0.0,
          up_passes ? g * s : 0.0};
}

// Moves element i of x to the side of `limit` that was decided: its value then changes by a
// rounding, and its slope as that of the side does. `sign` -1: to the side of -limit.
void put_beside(const Tensor& x, std::int64_t i, double limit, double sign, bool is_beyond) {
  constexpr double kSmallStep = 1.0 / 512.0;  // Below the spacing of any type.
  double value = limit;
  for (x.set(i, sign * value); (sign * x.get(i) > limit) != is_beyond; x.set(i, sign * value)) {
    value += (is_beyond ? kSmallStep : -kSmallStep) * limit;
  }
}

// Whether a number is beyond a limit may be rounding's choice; who judges ranks knows theirs.
void decide_clipping(CloseCalls& calls, const ActivationForm& form, const Tensor& gate,
                     const Tensor& up) {
  const auto decide = [&](const Tensor& x, std::int64_t i, double sign) {
    const double excess = sign * x.get(i) - form.limit;
    const bool is_beyond = calls.is_above(excess);
    if (is_beyond != (excess > 0.0)) put_beside(x, i, form.limit, sign, is_beyond);
  };
  for (std::int64_t i = 0; i < gate.numel(); ++i) {
    decide(gate, i, 1.0);
    decide(up, i, 1.0);
    decide(up, i, -1.0);
  }
}

const char* gated_name(const ActivationForm& form, bool is_forward) {
  if (form.kind == Activation::geglu_tanh) return is_forward ? "geglu" : "geglu_backward";
  return is_forward ? "clamped_swiglu" : "clamped_swiglu_backward";
}

Tensor gated_forward(Runtime& runtime, const ActivationForm& form, const Tensor& gate,
                     const Tensor& up) {
  require_size("gated activation", "number of elements of up", up.numel(), gate.numel());
  Tensor y = new_activation(runtime, gate.shape(), gate.dtype());
  const std::int64_t bytes = gate.num_bytes() + up.num_bytes() + y.num_bytes();
  const KernelFamily family = KernelFamily::activation;
  runtime.compute(memory_op(gated_name(form, true), gate.dtype(), bytes, family), [&] {
    for (std::int64_t i = 0; i < gate.numel(); ++i) {
      y.set(i, gated_value(form, {gate.get(i), up.get(i)}));
    }
  });
  return y;
}

Tensor gated_backward(Runtime& runtime, const ActivationForm& form, const Tensor& gate,
                      const Tensor& up, const Tensor& dy) {
  require_size("gated activation backward", "number of elements of dy", dy.numel(), gate.numel());
  Tensor d_gate = new_activation(runtime, gate.shape(), gate.dtype());
  const std::int64_t bytes =
      gate.num_bytes() + up.num_bytes() + 2 * dy.num_bytes() + d_gate.num_bytes();
  const KernelFamily family = KernelFamily::activation_backward;
  runtime.compute(memory_op(gated_name(form, false), gate.dtype(), bytes, family), [&] {
    for (std::int64_t i = 0; i < gate.numel(); ++i) {
      const double d = dy.get(i);
      const GatedPair slopes = gated_slopes(form, {gate.get(i), up.get(i)});
      d_gate.set(i, d * slopes.gate);
      dy.set(i, d * slopes.up);
    }
  });
  return d_gate;
}

Tensor squared_relu_forward(Runtime& runtime, const Tensor& x) {
  Tensor y = new_activation(runtime, x.shape(), x.dtype());
  const std::int64_t bytes = x.num_bytes() + y.num_bytes();
  const KernelFamily family = KernelFamily::activation;
  runtime.compute(memory_op("squared_relu", x.dtype(), bytes, family), [&] {
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const double above = std::max(x.get(i), 0.0);
      y.set(i, above * above);
    }
  });
  return y;
}

void squared_relu_backward(Runtime& runtime, const Tensor& x, const Tensor& dy) {
  require_size("squared relu backward", "number of elements of dy", dy.numel(), x.numel());
  const std::int64_t bytes = x.num_bytes() + 2 * dy.num_bytes();
  const KernelFamily family = KernelFamily::activation_backward;
  runtime.compute(memory_op("squared_relu_backward", x.dtype(), bytes, family), [&] {
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      dy.set(i, dy.get(i) * 2.0 * std::max(x.get(i), 0.0));
    }
  });
}

}  // namespace

double activation_value(const ActivationForm& form, double gate, double up) {
  switch (form.kind) {
    case Activation::gelu_tanh:
      return gelu_tanh(up);
    case Activation::squared_relu:
      return std::max(up, 0.0) * std::max(up, 0.0);
    case Activation::swiglu:
      return silu(gate) * up;
    default:
      return gated_value(form, {gate, up});
  }
}

Tensor first_activation(Runtime& runtime, const ActivationForm& form, const Tensor& gate,
                        const Tensor& up) {
  if (form.kind == Activation::clamped_swiglu) {
    runtime.off_the_clock([&] {
      CloseCalls* const calls = CloseCalls::active();
      if (calls != nullptr) decide_clipping(*calls, form, gate, up);
    });
  }
  return activation_forward(runtime, form, gate, up);
}

Tensor activation_forward(Runtime& runtime, const ActivationForm& form, const Tensor& gate,
                          const Tensor& up) {
  switch (form.kind) {
    case Activation::gelu_tanh:
      return gelu_forward(runtime, up);
    case Activation::squared_relu:
      return squared_relu_forward(runtime, up);
    case Activation::swiglu:
      return swiglu_forward(runtime, gate, up);
    default:
      return gated_forward(runtime, form, gate, up);
  }
}

Tensor activation_backward(Runtime& runtime, const ActivationForm& form, const Tensor& gate,
                           const Tensor& up, const Tensor& dy) {
  switch (form.kind) {
    case Activation::gelu_tanh:
      gelu_backward(runtime, up, dy);
      return {};
    case Activation::squared_relu:
      squared_relu_backward(runtime, up, dy);
      return {};
    case Activation::swiglu:
      return swiglu_backward(runtime, gate, up, dy);
    default:
      return gated_backward(runtime, form, gate, up, dy);
  }
}

}  // namespace shardsim
