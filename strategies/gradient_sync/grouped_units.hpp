#pragma once

#include <vector>

#include "strategies/model/model_wrapper.hpp"

namespace shardsim {

/// The same model with larger units: neighbours are one unit until it has `minimum_numel` elements,
/// so that small ones are not gathered and reduced alone. A unit that is read by several modules
/// stays gathered from its first forward to its last backward: the price of fewer messages. Units
/// of different model chunks and tied parameters are not joined, and the last unit may be smaller.
class GroupedUnits final : public ModelWrapper {
 public:
  /// `inner` must outlive it.
  GroupedUnits(const Model& inner, std::int64_t minimum_numel);

  [[nodiscard]] std::span<const ParameterUnit> units() const override { return units_; }
  [[nodiscard]] std::span<const int> units_of(int module) const override {
    return module_units_[static_cast<std::size_t>(module)];
  }

 private:
  std::vector<ParameterUnit> units_;
  std::vector<std::vector<int>> module_units_;
};

}  // namespace shardsim
