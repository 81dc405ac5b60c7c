#pragma once

#include "strategies/model/layer.hpp"

// Rows of a table: by token, and by position.
namespace shardsim {

/// tokens [b, s] int32, weight [v, h] -> y [b, s, h]. Throws UsageError on a token outside [0, v).
[[nodiscard]] Tensor token_embedding_forward(Runtime& runtime, const Tensor& tokens,
                                             const Tensor& weight);
/// Adds each row of dy [b, s, h] to the row of weight_gradient [v, h] that its token names. Bytes
/// count one row per token, as if no two were equal: a price must not depend on data.
void token_embedding_backward(Runtime& runtime, const Tensor& tokens, const Tensor& dy,
                              const Tensor& weight_gradient);

/// y [b, s, h] += rows [0, s) of weight [max positions, h], in place.
void position_embedding_forward(Runtime& runtime, const Tensor& weight, const Tensor& y);
/// Rows [0, s) of weight_gradient += the sum of dy [b, s, h] over samples.
void position_embedding_backward(Runtime& runtime, const Tensor& dy, const Tensor& weight_gradient);

}  // namespace shardsim
