#pragma once

#include "strategies/model/attention.hpp"

// Attention sinks: a number per query head stands in the denominator of the softmax as the
// exponential of a score would, but has no value. So a head may attend to nothing. They enter once,
// behind the attention to all keys. Sources: OpenAI, "gpt-oss-120b & gpt-oss-20b Model Card"
// (2025); Xiao et al., "Efficient Streaming Language Models with Attention Sinks" (2024).
namespace shardsim {

/// Sinks of heads: elements [first, first + num_heads of the shape) of a parameter [n].
struct Sinks {
  Tensor tensor;  ///< Undefined: there are none.
  std::int64_t first = 0;

  [[nodiscard]] bool exist() const { return tensor.defined(); }
};

/// The same for backward.
struct SinkSlopes {
  Sinks sinks;
  Tensor gradient;  ///< Has the size of sinks.tensor, and is added to.
};

/// With sink sigma, L becomes ln(e^L + e^sigma), and y becomes y e^(L before - L). From then on
/// attention_backward gives the gradients of q, k and v without a change. Counts the bytes of y and
/// of log_sum_exp, read and written.
void add_sinks(Runtime& runtime, const AttentionShape& shape, const Sinks& sinks,
               const AttentionOutput& out);

/// Adds to each sink's gradient minus the sum over its rows of e^(sigma - L) (dy . y). `out`: as
/// add_sinks left it. Without sinks both do nothing.
void sinks_backward(Runtime& runtime, const AttentionShape& shape, const SinkSlopes& slopes,
                    const AttentionOutput& out, const Tensor& dy);

}  // namespace shardsim
