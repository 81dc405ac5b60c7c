#pragma once

#include "strategies/model/attention_mask.hpp"
#include "strategies/model/layer.hpp"
#include "strategies/model/sequence_part.hpp"

// Self-attention with grouped query heads. Memory is that of a fused kernel: the s x s
// probabilities are never stored; backward computes them again from q, k and one number per row.
// Queries and keys may be of different parts of the samples: results of blocks are merged exactly.
// Sources: Dao, "FlashAttention-2" (2023); Ainslie et al., "GQA" (2023).
namespace shardsim {

struct AttentionShape {
  std::int64_t batch = 0;       ///< b
  std::int64_t seq_len = 0;     ///< s, of whole samples.
  std::int64_t num_heads = 0;   ///< a
  std::int64_t num_groups = 0;  ///< g, divides a: heads [i a/g, (i+1) a/g) share k and v of i.
  std::int64_t head_size = 0;   ///< d, of queries and keys.
  std::int64_t value_size = 0;  ///< d_v, of values and of y; 0: d.
  // Which positions: s_q and s_k of each sample.
  SequenceShares queries = {};
  SequenceShares keys = {};
  AttentionMask mask = {};
  double scale = 0.0;      ///< For scores; 0: 1 / sqrt(d).
  double score_cap = 0.0;  ///< C: a scaled score z becomes C tanh(z / C); 0: it stays. Source:
                           ///< Gemma Team, "Gemma 2" (2024).

  [[nodiscard]] AttentionWork work() const { return attention_work(seq_len, queries, keys, mask); }
  [[nodiscard]] std::int64_t value_width() const { return value_size > 0 ? value_size : head_size; }
  /// Elements of this rank's rows: of q, k, v and y.
  [[nodiscard]] std::int64_t q_row() const { return num_heads * head_size; }
  [[nodiscard]] std::int64_t k_row() const { return num_groups * head_size; }
  [[nodiscard]] std::int64_t v_row() const { return num_groups * value_width(); }
  [[nodiscard]] std::int64_t y_row() const { return num_heads * value_width(); }
};

/// Heads that lie side by side in the rows of a tensor, perhaps among others: element i of head j
/// at position (row) r is at r * row_stride + first + j * d + i. So q, k and v may share a tensor.
struct Heads {
  Tensor tensor;
  std::int64_t row_stride = 0;
  std::int64_t first = 0;
};

/// Heads of queries, keys and values, or of their gradients.
struct QkvHeads {
  Heads q;
  Heads k;
  Heads v;
};

/// Rows are [count of shares, b, length of a share].
struct AttentionOutput {
  Tensor y;            ///< [b, s, a d_v]
  Tensor log_sum_exp;  ///< [b, a, s]: of the scores of each row; -inf if it sees no key.
};

/// Zeros, for attention of `shape`: y in y_dtype, the rest in the statistics' dtype of `dtype`.
[[nodiscard]] AttentionOutput allocate_attention(Runtime& runtime, const AttentionShape& shape,
                                                 DType dtype, DType y_dtype);

/// y = softmax(q k^T scale, mask) v; q has a heads, k and v have g. Counts 2 (d + d_v) flops per
/// head and pair of AttentionWork, two products; 2 b a d s^2 for whole samples, d = d_v and a
/// causal mask.
[[nodiscard]] AttentionOutput attention_forward(Runtime& runtime, const AttentionShape& shape,
                                                const QkvHeads& qkv);
/// The same into tensors that exist. Rows that see no key get 0.
void attention_forward_into(Runtime& runtime, const AttentionShape& shape, const QkvHeads& qkv,
                            const AttentionOutput& out);

/// `sum`, of some keys, becomes that of these and those of `part`: y weighted by the exponentials'
/// sums. `shape` is that of `part`. Source: Milakov & Gimelshein, "Online normalizer calculation
/// for softmax" (2018).
void merge_attention(Runtime& runtime, const AttentionShape& shape, const AttentionOutput& part,
                     const AttentionOutput& sum);

/// Writes (does not add, but for dq if `adds_to_dq`) the gradients. `forward`, of all keys that the
/// queries see, and `dy` [b, s, a d_v] are read. Counts 2 (3 d + 2 d_v) flops per head and pair, 5
/// b a d s^2 for whole samples: the scores again, and two products for each of v and the scores.
void attention_backward(Runtime& runtime, const AttentionShape& shape, const QkvHeads& qkv,
                        const AttentionOutput& forward, const Tensor& dy, const QkvHeads& gradients,
                        bool adds_to_dq = false);

/// Results of attention, kept for backward beside q, k and v.
struct Attended {
  AttentionOutput own;  ///< y of this rank's tokens and heads.
  /// If tokens were exchanged for heads: q, k and v side by side, of fewer heads and more tokens.
  /// They replace this rank's own; own.log_sum_exp belongs to their y.
  Tensor exchanged_qkv;
  Tensor exchanged_y;
};

}  // namespace shardsim
