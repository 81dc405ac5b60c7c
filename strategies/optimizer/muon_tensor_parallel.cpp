#include "strategies/optimizer/muon_tensor_parallel.hpp"

#include "strategies/model/layer.hpp"

namespace shardsim {

Tensor iterated_copy(const MuonRank& rank, const Tensor& direction) {
  Tensor x = rank.runtime.allocate(MemoryCategory::optimizer, direction.shape(), rank.dtype);
  const std::int64_t bytes = direction.num_bytes() + x.num_bytes();
  rank.runtime.compute(memory_op("muon_copy", rank.dtype, bytes),
                       [&] { store(x, values_of(direction)); });
  return x;
}

Orthogonalized orthogonalize_whole(const MuonRank& rank, const Tensor& direction,
                                   const MatrixPart& part) {
  return {newton_schulz(rank.runtime, rank.options, iterated_copy(rank, direction),
                        smaller_side(part.rows, part.columns)),
          scale_of(rank.options, part)};
}

Orthogonalized orthogonalize(const MuonRank& rank, const Tensor& direction,
                             const MatrixPart& part) {
  if (part.cut_axis < 0) return orthogonalize_whole(rank, direction, part);
  switch (rank.options.tensor_parallel) {
    case MuonTensorParallel::distributed:
      return orthogonalize_distributed(rank, direction, part);
    case MuonTensorParallel::blockwise:
      return orthogonalize_blockwise(rank, direction, part);
    case MuonTensorParallel::duplicated:
      break;
  }
  return orthogonalize_duplicated(rank, direction, part);
}

}  // namespace shardsim
