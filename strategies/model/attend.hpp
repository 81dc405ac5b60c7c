#pragma once

#include "strategies/model/attention.hpp"
#include "strategies/model/pass.hpp"

// The attention of a block, with keys all on this rank, or spread over a context-parallel group.
namespace shardsim {

/// Results of attention, kept for backward beside q, k and v.
struct Attended {
  AttentionOutput own;  ///< y of this rank's tokens and heads.
  /// If tokens were exchanged for heads: q, k and v side by side, of fewer heads and more tokens.
  /// They replace this rank's own; own.log_sum_exp belongs to their y.
  Tensor exchanged_qkv;
  Tensor exchanged_y;
};

/// `shape`: of this rank's heads, of whole samples. q, k and v have the positions of pass.part. If
/// the result has exchanged_qkv, backward does not read them.
[[nodiscard]] Attended attend(const Pass& pass, const AttentionShape& shape, const Heads& q,
                              const Heads& k, const Heads& v);

/// Writes dq, dk and dv, from dy [b, s, a d] of this rank's tokens.
void backward_attend(const Pass& pass, const AttentionShape& shape, const Heads& q, const Heads& k,
                     const Heads& v, const Attended& forward, const Tensor& dy, const Heads& dq,
                     const Heads& dk, const Heads& dv);

}  // namespace shardsim
