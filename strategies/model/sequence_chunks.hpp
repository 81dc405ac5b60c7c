#pragma once

#include <cstdint>

#include <Eigen/Core>

#include "strategies/model/row_matrix.hpp"

// The positions of a sample in chunks, as recurrences with a decay are computed: within a chunk by
// matrix products, from chunk to chunk by a state. Source: Dao and Gu, "Transformers are SSMs"
// (2024).
namespace shardsim {

using ColumnVector = Eigen::VectorXd;

/// Chunks of `size` positions; the last has what is left.
struct SequenceChunks {
  std::int64_t seq_len = 0;
  std::int64_t size = 0;

  [[nodiscard]] std::int64_t count() const { return (seq_len + size - 1) / size; }
  [[nodiscard]] std::int64_t first(std::int64_t chunk) const { return chunk * size; }
  [[nodiscard]] std::int64_t length(std::int64_t chunk) const {
    return chunk + 1 < count() ? size : seq_len - first(chunk);
  }
  /// Sums over all chunks of their length squared and cubed. Throw LimitError as checked_product.
  [[nodiscard]] std::int64_t squares() const;
  [[nodiscard]] std::int64_t cubes() const;
};

/// Throws LimitError as checked_product does.
[[nodiscard]] std::int64_t checked_sum(std::initializer_list<std::int64_t> terms);

/// G_i = g_0 + ... + g_i.
[[nodiscard]] ColumnVector decay_sums(const ColumnVector& g);
/// Its transpose: dg_i = dG_i + ... + dG_(r-1).
[[nodiscard]] ColumnVector decay_sums_backward(const ColumnVector& d_sums);
/// (r, r): e^(G_i - G_j) for j <= i, else 0.
[[nodiscard]] RowMatrix decays_between(const ColumnVector& sums);
/// e^(G_(r-1) - G_i): what is left of position i behind the chunk.
[[nodiscard]] ColumnVector decays_to_end(const ColumnVector& sums);
/// Adds to dG the gradient by decays: `d_product` is that of M times M, for M = (..)
/// decays_between.
void add_decay_slopes(const RowMatrix& d_product, ColumnVector& d_sums);

}  // namespace shardsim
