#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/harness/shown_state.hpp"

namespace shardsim {

/// One tensor of one step, from all ranks that have a part of it.
struct ShownTensor {
  Shown what = Shown::output;
  std::string name;
  int step = 0;
  int microbatch = -1;
  std::vector<const ShownState::Piece*> pieces;  ///< By rank, then as shown.

  /// Elements of the whole, as the first piece has it.
  [[nodiscard]] std::int64_t whole() const { return pieces.front()->whole; }
  /// By element; of several ranks' values the lowest rank's. Elements that nobody has are 0.
  [[nodiscard]] std::vector<double> values() const;
  /// "gradient of w, step 2, microbatch 1".
  [[nodiscard]] std::string describe() const;
};

/// The shown tensors: causes before their effects.
class ShownTable {
 public:
  /// Tensors of a step and kind come in the order in which `order` has them, others behind.
  ShownTable(const ShownState& shown, const ShownState& order);

  [[nodiscard]] const std::vector<ShownTensor>& tensors() const { return tensors_; }
  /// Null if there is none.
  [[nodiscard]] const ShownTensor* find(const ShownTensor& like, int step) const;
  /// Largest element of all tensors of a kind.
  [[nodiscard]] double largest(Shown what) const;

 private:
  std::vector<ShownTensor> tensors_;
  std::map<Shown, double> largest_;
};

[[nodiscard]] const char* name_of(Shown what);

}  // namespace shardsim
