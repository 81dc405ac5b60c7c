#pragma once

#include "strategies/model/pass.hpp"

// A column-parallel linear layer whose output is gathered: every tensor-parallel rank computes a
// part of each row, and then has the whole rows of its own tokens again. Megatron-Core's
// ColumnParallelLinear with gather_output, and behind it a scatter to sequence-parallel ranks.
namespace shardsim {

/// Weight k [n / t, m]; x [b, s, m], or with sequence parallelism this rank's tokens
/// [b s / t, m] -> y of the same tokens, [.., n]. `layer` names it in errors.
[[nodiscard]] Tensor apply_gathered_linear(const Pass& pass, int k, const Tensor& x,
                                           const char* layer);
/// Adds and reports the weight's gradient, drops x, and returns its gradient.
[[nodiscard]] Tensor backward_gathered_linear(const Pass& pass, int k, const Tensor& dy, Tensor x,
                                              const char* layer);

}  // namespace shardsim
