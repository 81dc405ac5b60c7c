#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/harness/shown_state.hpp"

namespace shardsim {

/// The rounding noise of shown tensors below fp64, from the terms of a program's sums
/// (docs/decisions/0051-bounds.md). Where terms cancel, the sum does not tell it. Nor does the
/// reference's own error, which may be small by luck. Further runs with drawn errors show it:
/// - the reference, whose elements are all rounded up or down at random;
/// - the program, with an error in the last bit of all terms of reductions;
/// - the program, with such an error in all other sends of one rank, rank by rank.
/// The program's own roundings are no excuse: a sum that is coarser than its terms is found.
class ProgramNoise {
 public:
  /// All that ranks show; nothing where the run fails.
  using Run = std::function<ShownState()>;
  struct Runs {
    Run program;          ///< As the run that is judged.
    Run program_in_fp64;  ///< The same but for precision.
    Run reference;        ///< On one rank, in the precision.
  };
  /// Runs them at once, many times. `exact`: the tensors that the reference shows in fp64.
  ProgramNoise(const Runs& runs, int ranks, const ShownState& exact);

  /// Largest error of an element of `tensor`.
  [[nodiscard]] double of(const ShownTensor& tensor) const;

 private:
  // The shown tensors without errors, and with them, draw by draw.
  struct Draws {
    ShownState plain;
    std::vector<ShownState> drawn;
  };
  [[nodiscard]] static double bound_of(const Draws& draws, const ShownTensor& tensor);
  [[nodiscard]] static double largest_of(const Draws& draws, const ShownTensor& tensor);

  Draws own_;
  Draws terms_;
  Draws copies_;
};

}  // namespace shardsim
