#pragma once

#include "strategies/model/row_matrix.hpp"

// The randomized Hadamard transform of NVFP4: it spreads outliers over a block of rows, so that the
// block's scale serves all. Products of two transformed matrices are those of the matrices.
// Sources: NVIDIA, "Pretraining Large Language Models with NVFP4" (2025), section 4.1; Transformer
// Engine at d0067d0d, nvfp4_tensor.py (get_rht_matrix), whose signs are the same for all tensors.
namespace shardsim {

inline constexpr std::int64_t kHadamardRows = 16;

/// Every kHadamardRows rows x become H D x, with D the signs and H the matrix of Sylvester over 4.
/// REQUIRES: whole blocks of rows.
[[nodiscard]] RowMatrix hadamard_transformed(const RowMatrix& rows);

}  // namespace shardsim
