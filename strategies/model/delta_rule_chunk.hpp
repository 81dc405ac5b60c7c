#pragma once

#include "strategies/model/chunk_decays.hpp"

// Gated delta rule of one value head within one chunk of r positions, from the state S (d_k, d_v)
// ahead of it. With G the sums of g from the chunk's begin on, D the decays between positions:
//   A = (beta k k^T D) below the diagonal, X = (I + A)^-1,
//   W = X (beta e^G k), U = X (beta v), N = U - W S,
//   o = e^G q S + (q k^T D) N, S behind it = e^(G_r) S + (k e^(G_r - G))^T N.
// Source: Yang, Kautz and Hatamizadeh, "Gated Delta Networks" (2024), sections 3.2 and 3.3.
namespace shardsim {

struct DeltaChunk {
  RowMatrix q;  ///< (r, d_k), normed and scaled.
  RowMatrix k;  ///< (r, d_k), normed.
  RowMatrix v;  ///< (r, d_v)
  ColumnVector beta;
  ColumnVector sums;  ///< G.
};

/// X (r, r), unit lower triangular.
[[nodiscard]] RowMatrix delta_inverse(const DeltaChunk& chunk);
/// N (r, d_v).
[[nodiscard]] RowMatrix delta_values(const DeltaChunk& chunk, const RowMatrix& inverse,
                                     const RowMatrix& state);
/// o (r, d_v).
[[nodiscard]] RowMatrix delta_output(const DeltaChunk& chunk, const RowMatrix& values,
                                     const RowMatrix& state);
/// S behind the chunk.
[[nodiscard]] RowMatrix delta_next_state(const DeltaChunk& chunk, const RowMatrix& values,
                                         const RowMatrix& state);

/// Gradients by a chunk's fields. `d_state` is the gradient of S behind the chunk, and becomes that
/// of S ahead of it.
[[nodiscard]] DeltaChunk delta_chunk_backward(const DeltaChunk& chunk, const RowMatrix& inverse,
                                              const RowMatrix& state, const RowMatrix& d_output,
                                              RowMatrix& d_state);

}  // namespace shardsim
