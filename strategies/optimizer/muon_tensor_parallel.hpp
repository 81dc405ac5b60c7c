#pragma once

#include "backends/communicator.hpp"

#include "strategies/optimizer/newton_schulz.hpp"

// One rule per mode, each in a file of its own: how a rank gets its slice of an orthogonalized
// matrix. Matrices that are not cut are iterated whole on every rank, whatever the mode.
namespace shardsim {

/// The means of a rank.
struct MuonRank {
  Runtime& runtime;
  const MuonOptions& options;
  DType dtype;                     ///< In which it iterates.
  Communicator* tensor = nullptr;  ///< Its ranks have the other slices; null: nothing is cut.
};

struct Orthogonalized {
  Tensor x;            ///< [rows, columns], this rank's slice, in the type of the iteration.
  double scale = 1.0;  ///< scale_of the matrix that was orthogonalized.
};

/// `direction` [rows, columns]: this rank's slice `part`, which is kept. By
/// options.tensor_parallel.
[[nodiscard]] Orthogonalized orthogonalize(const MuonRank& rank, const Tensor& direction,
                                           const MatrixPart& part);

/// All of a matrix on this rank.
[[nodiscard]] Orthogonalized orthogonalize_whole(const MuonRank& rank, const Tensor& direction,
                                                 const MatrixPart& part);

/// Gathers the slices, in the direction's type. A rank sends (t - 1) slices, computes all.
[[nodiscard]] Orthogonalized orthogonalize_duplicated(const MuonRank& rank, const Tensor& direction,
                                                      const MatrixPart& part);
/// Sums the norm (a scalar) and in each step A [o, o], where o is the side that is not cut: a rank
/// sends 2 o^2 (t - 1) / t elements per step. Wasteful where o is the longer side.
[[nodiscard]] Orthogonalized orthogonalize_distributed(const MuonRank& rank,
                                                       const Tensor& direction,
                                                       const MatrixPart& part);
/// The slice as a matrix of its own. Sends nothing; it is another algorithm than the others.
[[nodiscard]] Orthogonalized orthogonalize_blockwise(const MuonRank& rank, const Tensor& direction,
                                                     const MatrixPart& part);

/// A copy of a direction to iterate on: one memory-bound operation.
[[nodiscard]] Tensor iterated_copy(const MuonRank& rank, const Tensor& direction);

}  // namespace shardsim
