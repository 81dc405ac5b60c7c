#include "strategies/optimizer/muon_tensor_parallel.hpp"

namespace shardsim {

Orthogonalized orthogonalize_blockwise(const MuonRank& rank, const Tensor& direction,
                                       const MatrixPart& part) {
  return orthogonalize_whole(rank, direction, {.rows = part.rows, .columns = part.columns});
}

}  // namespace shardsim
