#pragma once

#include "strategies/model/layer.hpp"

// Causal self-attention with grouped query heads. Memory is that of a fused kernel: the s x s
// probabilities are never stored; backward computes them again from q, k and one number per row.
// Sources: Dao, "FlashAttention-2" (2023); Ainslie et al., "GQA" (2023).
namespace shardsim {

struct AttentionShape {
  std::int64_t batch = 0;       ///< b
  std::int64_t seq_len = 0;     ///< s
  std::int64_t num_heads = 0;   ///< a
  std::int64_t num_groups = 0;  ///< g, divides a: heads [i a/g, (i+1) a/g) share k and v of i.
  std::int64_t head_size = 0;   ///< d
};

/// Heads that lie side by side in the rows of a tensor, perhaps among others: element i of head j
/// at position (row) r is at r * row_stride + first + j * d + i. So q, k and v may share a tensor.
struct Heads {
  Tensor tensor;
  std::int64_t row_stride = 0;
  std::int64_t first = 0;
};

struct AttentionOutput {
  Tensor y;            ///< [b, s, a d]
  Tensor log_sum_exp;  ///< [b, a, s]: of the scaled scores of each row.
};

/// y = softmax(q k^T / sqrt(d), causal) v; q has a heads, k and v have g. Counts 2 b a d s^2 flops:
/// two products over the half of the square that the mask leaves.
[[nodiscard]] AttentionOutput attention_forward(Runtime& runtime, const AttentionShape& shape,
                                                const Heads& q, const Heads& k, const Heads& v);

/// Writes (does not add) dq, dk and dv. `forward` and `dy` [b, s, a d] are read. Counts 5 b a d s^2
/// flops: the scores again, and two products for each of v and the scores.
void attention_backward(Runtime& runtime, const AttentionShape& shape, const Heads& q,
                        const Heads& k, const Heads& v, const AttentionOutput& forward,
                        const Tensor& dy, const Heads& dq, const Heads& dk, const Heads& dv);

}  // namespace shardsim
