#pragma once

#include <Eigen/Core>

#include "strategies/model/row_matrix.hpp"

// Decays within a chunk of positions, from the logarithms g of those of each position.
namespace shardsim {

using ColumnVector = Eigen::VectorXd;

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
