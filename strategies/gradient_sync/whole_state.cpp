#include "strategies/gradient_sync/whole_state.hpp"

namespace shardsim {

bool is_main_copy(const ParameterSpec& spec, const MeshPlace& place) {
  const bool is_first = spec.is_split() ? place.tp % spec.split.copies == 0 : place.tp == 0;
  return is_first && (!spec.tied || place.pp == 0);
}

void for_each_whole_piece(const ModelPart& part, const StatePiece& piece,
                          const std::function<void(const WholePiece&)>& visit) {
  const ParameterSpec& spec = spec_of(*part.model, piece.parameter);
  WholePiece whole{piece,
                   is_main_copy(spec, part.place),
                   spec.tied,
                   spec.is_split_over(SplitRanks::tensor),
                   spec.is_split_over(SplitRanks::expert),
                   spec.split.copies};
  whole.piece.parameter = part.whole_number(piece.parameter);
  for_each_whole_run(spec, part.index().of(spec), piece.first, piece.values.numel(),
                     [&](const WholeRun& run) {
                       whole.piece.first = run.whole_first;
                       whole.piece.values = piece.values.view(run.at, {run.count});
                       visit(whole);
                     });
}

}  // namespace shardsim
