#pragma once

#include <cstdint>

#include "strategies/model/layer.hpp"
#include "strategies/model/sequence_part.hpp"

// Elementwise layers: nonlinearities and dropout. tanh and exp are libm's: they act on data, whose
// last bits may differ between platforms, never on prices.
namespace shardsim {

/// 1 / (1 + e^-x), for layers' own arithmetic.
[[nodiscard]] double sigmoid(double x);
/// The value of gelu_forward, and its slope.
[[nodiscard]] double gelu_tanh(double x);
[[nodiscard]] double gelu_tanh_slope(double x);
/// x sigmoid(x), and its slope.
[[nodiscard]] double silu(double x);
[[nodiscard]] double silu_slope(double x);
/// ln(1 + e^x), without overflow.
[[nodiscard]] double softplus(double x);

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

/// y sigmoid(gate), elementwise, for the output of attention. Source: Qiu et al., "Gated Attention
/// for Large Language Models" (2025).
[[nodiscard]] Tensor output_gate_forward(Runtime& runtime, const Tensor& y, const Tensor& gate);
/// Returns the gradient of `gate`; in place: d, that of the product, becomes that of y.
[[nodiscard]] Tensor output_gate_backward(Runtime& runtime, const Tensor& y, const Tensor& gate,
                                          const Tensor& d);

/// z = cap tanh(z / cap), in place. Its backward is part of cross_entropy_backward. Source: Gemma
/// Team, "Gemma 2" (2024).
void soft_cap_forward(Runtime& runtime, const Tensor& z, double cap);

// Dropout: elements are zeroed at random and the others scaled up, so that the mean stays. Source:
// Srivastava et al., "Dropout" (2014). Whether an element is dropped is a function of the seed, the
// site in the model, and the element's place in the endless data set. So it does not depend on how
// ranks and microbatches share the data or the tokens; it is another one in every step, whose
// samples are others; and nothing is stored: backward, and a forward that is run again, ask again.

struct Dropout {
  double rate = 0.0;  ///< Probability to be dropped; 0: the layer does not exist.
  std::uint64_t seed = 0;
  std::int64_t first_token = 0;  ///< First one of the microbatch, in the data set.
  /// Which positions of each sample of `seq_len` the microbatch's tokens are.
  SequencePart part = {};
  std::int64_t seq_len = 1;
};

/// A place in a model: "blocks.3.attention".
struct DropoutSite {
  int block;  ///< -1: before the blocks.
  const char* branch;
};

/// In place. y's rows are the tokens from number `first_row` of the microbatch on.
void dropout_forward(Runtime& runtime, const Dropout& dropout, const DropoutSite& site,
                     std::int64_t first_row, const Tensor& y);
/// Returns dx; dy stays as it is, for a residual connection reads it, too. Without dropout: dy.
[[nodiscard]] Tensor dropout_backward(Runtime& runtime, const Dropout& dropout,
                                      const DropoutSite& site, std::int64_t first_row,
                                      const Tensor& dy);

}  // namespace shardsim
