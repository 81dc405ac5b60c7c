#include "sim/verify/pieced_state.hpp"

namespace shardsim {

void PiecedState::add(const StatePiece& piece, const ReferenceTensors& expected) {
  const std::string_view kind = kind_name(piece);
  auto found = kinds_.find(kind);
  if (found == kinds_.end()) found = kinds_.emplace(kind, expected).first;
  std::vector<double>& values = found->second[static_cast<std::size_t>(piece.parameter)];
  for (std::int64_t i = 0; i < piece.values.numel(); ++i) {
    values[static_cast<std::size_t>(piece.first + i)] = piece.values.get(i);
  }
}

}  // namespace shardsim
