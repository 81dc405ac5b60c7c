#pragma once

#include "strategies/model/layer.hpp"

// Rows weighed by a number of their own, as Qwen2-MoE weighs the output of its shared expert:
// y = sigmoid(logit) x. Source: transformers, modeling_qwen2_moe.py, Qwen2MoeSparseMoeBlock.
namespace shardsim {

/// logits [n, 1], x [..., h] of n rows -> y, in x's shape.
[[nodiscard]] Tensor gated_rows_forward(Runtime& runtime, const Tensor& logits, const Tensor& x);

struct GatedRowsGradient {
  Tensor logits;  ///< [n, 1]
  Tensor x;       ///< In x's shape.
};
[[nodiscard]] GatedRowsGradient gated_rows_backward(Runtime& runtime, const Tensor& logits,
                                                    const Tensor& x, const Tensor& dy);

}  // namespace shardsim
