#pragma once

#include <vector>

#include "strategies/mesh.hpp"
#include "strategies/model/model_wrapper.hpp"

namespace shardsim {

/// The same model to one of two gradient synchronizations: units are only those with weights of one
/// kind, numbered anew. Parameters keep their numbers; those of the other kind are in no unit.
class UnitsOfKind final : public ModelWrapper {
 public:
  /// `inner` must outlive it. REQUIRES: no unit of `inner` has weights of both kinds.
  UnitsOfKind(const Model& inner, WeightKind kind);

  [[nodiscard]] std::span<const ParameterUnit> units() const override { return units_; }
  [[nodiscard]] std::span<const int> units_of(int module) const override {
    return module_units_[static_cast<std::size_t>(module)];
  }

 private:
  std::vector<ParameterUnit> units_;
  std::vector<std::vector<int>> module_units_;
};

}  // namespace shardsim
