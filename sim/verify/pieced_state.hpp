#pragma once

#include <utility>

#include "strategies/gradient_sync/whole_state.hpp"

#include "sim/verify/reference.hpp"

namespace shardsim {

/// Assembles tensors from the pieces that ranks show. Elements that no rank has shown keep the
/// expected values; if several ranks show an element, the last counts (replicas are compared
/// elsewhere, bit by bit).
class PiecedState {
 public:
  /// `expected`: all tensors of the piece's kind.
  void add(const StatePiece& piece, const ReferenceTensors& expected);
  [[nodiscard]] const ReferenceKinds& kinds() const { return kinds_; }
  /// Returns all added tensors and forgets them.
  [[nodiscard]] ReferenceKinds take() { return std::exchange(kinds_, {}); }

 private:
  ReferenceKinds kinds_;
};

}  // namespace shardsim
