#pragma once

#include "strategies/model/layer.hpp"

// Elementwise nonlinearities. tanh and exp are libm's: they act on data, whose last bits may differ
// between platforms, never on prices.
namespace shardsim {

/// y = max(x, 0), in place: x becomes y.
void relu_forward(Runtime& runtime, const Tensor& x);
/// In place: dy becomes dx. `y` is forward's result; it is positive exactly where x was.
void relu_backward(Runtime& runtime, const Tensor& y, const Tensor& dy);

/// y = 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), the form GPT-2 was trained with. Source:
/// Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016).
[[nodiscard]] Tensor gelu_forward(Runtime& runtime, const Tensor& x);
/// In place: dy becomes dx.
void gelu_backward(Runtime& runtime, const Tensor& x, const Tensor& dy);

/// y = silu(gate) * up with silu(g) = g / (1 + exp(-g)). Source: Shazeer, "GLU Variants Improve
/// Transformer" (2020).
[[nodiscard]] Tensor swiglu_forward(Runtime& runtime, const Tensor& gate, const Tensor& up);
/// Returns the gradient of `gate`; in place: dy becomes the gradient of `up`.
[[nodiscard]] Tensor swiglu_backward(Runtime& runtime, const Tensor& gate, const Tensor& up,
                                     const Tensor& dy);

}  // namespace shardsim
