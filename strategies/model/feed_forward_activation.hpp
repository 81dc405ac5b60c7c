#pragma once

#include <cstdint>

#include "strategies/model/activation_store.hpp"
#include "strategies/model/layer.hpp"

// The activation between a feed-forward's matrices. It reads two products of the input, a gate and
// what it gates, or one.
namespace shardsim {

enum class Activation : std::uint8_t {
  relu,            ///< max(x, 0); family mlp.
  gelu_tanh,       ///< See gelu_forward.
  squared_relu,    ///< max(x, 0)^2. Source: So et al., "Primer" (2021); Nemotron-4.
  swiglu,          ///< See swiglu_forward.
  geglu_tanh,      ///< gelu_tanh(gate) up. Source: Gemma Team, "Gemma" (2024).
  clamped_swiglu,  ///< (u + 1) g sigmoid(1.702 g) of clipped g and u; see ActivationForm.
};

struct ActivationForm {
  Activation kind = Activation::swiglu;
  /// clamped_swiglu: g = min(gate, limit), u = up between -limit and limit. Nothing flows back
  /// through what is clipped. Source: GPT-OSS, GptOssExperts of Hugging Face transformers.
  double limit = 7.0;
  ActivationStore store = ActivationStore::same;  ///< For gate and up, until backward.

  [[nodiscard]] bool is_gated() const { return kind >= Activation::swiglu; }
};

/// The activation of one pair of elements; without a gate `gate` is not read. REQUIRES: not relu.
[[nodiscard]] double activation_value(const ActivationForm& form, double gate, double up);
/// gate and up [..., f] -> y [..., f]. Without a gate `gate` is undefined. REQUIRES: not relu.
[[nodiscard]] Tensor activation_forward(Runtime& runtime, const ActivationForm& form,
                                        const Tensor& gate, const Tensor& up);
/// The same where gate and up have just been computed: who judges ranks decides which elements are
/// clipped, and moves them to that side (CloseCalls). Kept ones have moved
/// already.
[[nodiscard]] Tensor first_activation(Runtime& runtime, const ActivationForm& form,
                                      const Tensor& gate, const Tensor& up);
/// Returns the gradient of `gate`, if there is one; in place: dy becomes that of `up`.
[[nodiscard]] Tensor activation_backward(Runtime& runtime, const ActivationForm& form,
                                         const Tensor& gate, const Tensor& up, const Tensor& dy);

}  // namespace shardsim
