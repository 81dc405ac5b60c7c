#pragma once

#include <functional>

#include "strategies/gradient_sync/gradient_sync.hpp"
#include "strategies/optimizer/muon_tensor_parallel.hpp"

// Muon's step of the chunks that hold matrices.
namespace shardsim {

/// A matrix, as this rank has it: elements [first, first + part.numel()) of a chunk.
struct ChunkMatrix {
  std::int64_t first = 0;
  MatrixPart part;
  int copies = 1;  ///< Tensor-parallel ranks that have a copy of it each.
};
/// Whether Muon's mode brings parts of a matrix together.
[[nodiscard]] bool joins_tensor_parts(const SyncPlan& plan);
/// Visits the matrices with an element in [begin, end) of a chunk, in their order.
void for_each_matrix(const Model& model, const FlatLayout& layout, int chunk, std::int64_t begin,
                     std::int64_t end, const std::function<void(const ChunkMatrix&)>& visit);

class MatrixUpdate {
 public:
  /// `gathers`: ranks own slices of matrices (ZeRO-1, MuonDataParallel::slices); else whole ones.
  /// All must outlive it.
  MatrixUpdate(const SyncPlan& plan, Runtime& runtime, const Mesh& mesh, bool gathers);

  /// Elements [begin, begin + master.numel()) of a chunk: what this rank owns of it. Flat, on the
  /// device, of equal length.
  struct Owned {
    int chunk = 0;
    std::int64_t begin = 0;
    Tensor master;
    Tensor gradient;
    Tensor momentum;
  };
  /// Where ranks own slices, each gathers the directions of the whole chunk, in the type of the
  /// iteration, iterates each matrix of which it owns an element, and keeps its part.
  void apply(const Owned& owned, double gradient_scale) const;

 private:
  [[nodiscard]] Communicator* tensor_ranks_of(const ChunkMatrix& matrix) const;
  [[nodiscard]] Tensor gathered(const Owned& owned, const Tensor& direction) const;
  void keep(const Owned& owned, const Tensor& update, const ChunkMatrix& matrix,
            const Orthogonalized& result) const;

  const SyncPlan& plan_;
  Runtime& runtime_;
  const Mesh& mesh_;
  bool gathers_;
};

}  // namespace shardsim
