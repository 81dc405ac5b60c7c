#pragma once

#include <utility>

#include "strategies/gradient_sync/whole_state.hpp"

#include "sim/app/reference.hpp"

namespace shardsim {

/// Puts together what ranks show of tensors, piece by piece. Elements that nobody has shown are
/// those that were expected; of elements that several show, the last stays (replicas are compared
/// elsewhere, bit by bit).
class PiecedState {
 public:
  /// `expected`: all tensors of the piece's kind.
  void add(const StatePiece& piece, const ReferenceTensors& expected);
  [[nodiscard]] const ReferenceKinds& kinds() const { return kinds_; }
  /// All that was added, which is then forgotten.
  [[nodiscard]] ReferenceKinds take() { return std::exchange(kinds_, {}); }

 private:
  ReferenceKinds kinds_;
};

}  // namespace shardsim
