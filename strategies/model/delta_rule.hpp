#pragma once

#include <algorithm>

#include "strategies/model/columns.hpp"
#include "strategies/model/sequence_chunks.hpp"

// Gated delta rule, the recurrence of gated DeltaNet. Per value head, with a state S [d_k, d_v]
// that is 0 ahead of each sample:
//   S <- e^(g_i) S, then S <- S + k_i beta_i (v_i - S^T k_i)^T, o_i = S^T q_i,
//   beta = sigmoid(beta'), g = -e^A_log softplus(a + dt_bias).
// q and k are divided by sqrt(sum of squares + 1e-6) per head, and q by sqrt(d_k); n_v / n_k value
// heads that lie side by side share q and k. It is computed in chunks, exactly.
// Sources: Yang, Kautz and Hatamizadeh, "Gated Delta Networks" (2024); transformers,
// modeling_qwen3_next.py, torch_chunk_gated_delta_rule; fla-org/flash-linear-attention.
namespace shardsim {

struct DeltaRuleShape {
  std::int64_t batch = 0;
  std::int64_t seq_len = 0;      ///< s, of whole samples.
  std::int64_t key_heads = 0;    ///< n_k
  std::int64_t value_heads = 0;  ///< n_v, a multiple of n_k.
  std::int64_t key_size = 0;     ///< d_k
  std::int64_t value_size = 0;   ///< d_v
  std::int64_t chunk = 64;       ///< C; s need not be a multiple.

  [[nodiscard]] std::int64_t rows() const { return batch * seq_len; }
  [[nodiscard]] std::int64_t k_row() const { return key_heads * key_size; }
  [[nodiscard]] std::int64_t v_row() const { return value_heads * value_size; }
  [[nodiscard]] SequenceChunks chunks() const { return {seq_len, std::min(chunk, seq_len)}; }
};

/// Rows are [b, s]; columns n_k d_k of q and k, n_v d_v of v, n_v of beta' and a.
struct DeltaRuleInput {
  Columns q;
  Columns k;
  Columns v;
  Columns beta;  ///< beta'
  Columns a;
  Tensor a_log;    ///< [n_v]
  Tensor dt_bias;  ///< [n_v]
};

struct DeltaRuleOutput {
  Tensor o;  ///< [b, s, n_v d_v]
  // Kept for backward beside the input:
  Tensor sums;     ///< [b, s, n_v], the statistics' dtype: sums of g since the chunk's begin.
  Tensor inverse;  ///< [b, s, n_v min(C, s)]: rows of a chunk's X (delta_rule_chunk.hpp), then 0s.
};

/// Counts, per token and value head, C (6 d_k + 4 d_v) + 6 d_k d_v + C^2 / 3 flops: ten products
/// and the inverse of a triangle. A last, shorter chunk counts its own length. Bytes are those of
/// input and output, and W, U, N and each chunk's S once written and read: they stand in memory
/// while this runs.
[[nodiscard]] DeltaRuleOutput delta_rule_forward(Runtime& runtime, const DeltaRuleShape& shape,
                                                 const DeltaRuleInput& input);

/// Writes the gradients of columns, and adds to those of a_log and dt_bias. Counts twice the flops
/// of forward, and 2 C (d_k + d_v) + 4 d_k d_v per token and value head for W, U and the states,
/// which are computed again. Their gradients stand in memory beside them.
void delta_rule_backward(Runtime& runtime, const DeltaRuleShape& shape, const DeltaRuleInput& input,
                         const DeltaRuleOutput& forward, const Tensor& d_o,
                         const DeltaRuleInput& gradient);

}  // namespace shardsim
