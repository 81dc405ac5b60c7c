#pragma once

#include "strategies/model/layer.hpp"
#include "strategies/model/sequence_part.hpp"

// Embeddings: rows of a table, by token and by position, and rotary positions.
namespace shardsim {

/// The classes of a vocabulary whose rows a rank has: [first, first + count) of `whole`. Its rows
/// beyond `count` are padding.
struct VocabPart {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t whole = 0;
};

/// tokens [b, s] int32, weight [v, h] -> y [b, s, h]. Throws UsageError on a token outside [0, v).
/// `weight` has a part of the table: 0 for tokens whose row it does not have.
[[nodiscard]] Tensor token_embedding_forward(Runtime& runtime, const Tensor& tokens,
                                             const Tensor& weight, const VocabPart& part);
/// Adds each row of dy [b, s, h] to the row of weight_gradient [v, h] that its token names. Bytes
/// count one row per token, as if no two were equal: a price must not depend on data.
void token_embedding_backward(Runtime& runtime, const Tensor& tokens, const Tensor& dy,
                              const Tensor& weight_gradient, const VocabPart& part);

/// Which positions the rows of an activation are at: tokens are counted through all samples, each
/// with `part` of its `seq_len` positions, and the first row is token `first`.
struct TokenRows {
  std::int64_t seq_len = 1;
  std::int64_t first = 0;
  SequencePart part = {};
};

/// y [b, s, h], or some tokens [n, h] of it, += the rows of weight [max positions, h] of their
/// positions, in place.
void position_embedding_forward(Runtime& runtime, const Tensor& weight, const Tensor& y,
                                const TokenRows& rows);
/// The rows of weight_gradient += the sum of dy over the tokens at their position.
void position_embedding_backward(Runtime& runtime, const Tensor& dy, const Tensor& weight_gradient,
                                 const TokenRows& rows);

// Rotary position embedding. Source: Su et al., "RoFormer: Enhanced Transformer with Rotary
// Position Embedding" (2021): neighbouring elements (2i, 2i + 1) of a head at position p turn by
// the angle p * theta^(-2i / d).

/// Rotary positions: each pair of neighbours i, i + 1 among the `turned` elements of a head from
/// `first` on turns by position x theta^(-i / turned). Source: Su et al., "RoFormer" (2021); of a
/// part of each head: Black et al., "GPT-NeoX-20B" (2022), `rotary_pct`.
struct Rotary {
  std::int64_t head_size = 2;  ///< d, divides the last dimension.
  double theta = 10000.0;
  std::int64_t turned = head_size;  ///< Even, at most d; the other elements stay as they are.
  std::int64_t first = 0;           ///< Elements of a head that stand before those that turn.
};

/// Rotates every head of x [b, s, heads d], whose s positions are those of `part`, in place.
void rotary_forward(Runtime& runtime, const Tensor& x, const Rotary& rotary,
                    const SequencePart& part = {});

/// The gradient turns back by the same angle, in place: dy becomes dx.
void rotary_backward(Runtime& runtime, const Tensor& dy, const Rotary& rotary,
                     const SequencePart& part = {});

}  // namespace shardsim
