#include "strategies/model/layer.hpp"
#include "strategies/optimizer/muon_tensor_parallel.hpp"

namespace shardsim {

// Cut rows: X^T X is the sum of the slices' own; cut columns: X X^T. Source: newton_schulz_tp of
// Emerging-Optimizers, which transposes by the cut axis in place of the smaller side.
Orthogonalized orthogonalize_distributed(const MuonRank& rank, const Tensor& direction,
                                         const MatrixPart& part) {
  const GramSide side = part.cut_axis == 0 ? GramSide::columns : GramSide::rows;
  const SumOverCut sum = [&](const Tensor& term) {
    const bool is_norm = term.numel() == 1 && term.shape().rank() == 1;
    const CallOptions options{.label = is_norm ? "muon norm" : "muon gram",
                              .traffic = is_norm ? TrafficClass::scalar : TrafficClass::payload};
    rank.tensor->all_reduce(term, ReduceOp::sum, options).wait();
  };
  return {newton_schulz(rank.runtime, rank.options, iterated_copy(rank, direction), side, sum),
          scale_of(rank.options, part)};
}

}  // namespace shardsim
