#pragma once

#include "strategies/model/chunk_decays.hpp"

// Selective scan of one head within one chunk of r positions, from the state S (p, N) ahead of it.
// With G the sums of A dt from the chunk's begin on, D the decays between positions, X = dt x:
//   P = C B^T D, y = P X + e^G C S^T, S behind it = e^(G_r) S + X^T (e^(G_r - G) B).
// Source: Dao and Gu, "Transformers are SSMs" (2024), section 6.
namespace shardsim {

struct ScanChunk {
  RowMatrix x;        ///< X (r, p)
  RowMatrix b;        ///< (r, N)
  RowMatrix c;        ///< (r, N)
  ColumnVector sums;  ///< G.
};

/// y (r, p), without the skip of x.
[[nodiscard]] RowMatrix scan_output(const ScanChunk& chunk, const RowMatrix& state);
/// S behind the chunk.
[[nodiscard]] RowMatrix scan_next_state(const ScanChunk& chunk, const RowMatrix& state);
/// Gradients by a chunk's fields. `d_state` is the gradient of S behind the chunk, and becomes that
/// of S ahead of it.
[[nodiscard]] ScanChunk scan_backward(const ScanChunk& chunk, const RowMatrix& state,
                                      const RowMatrix& d_output, RowMatrix& d_state);

}  // namespace shardsim
