#include "strategies/gradient_sync/units_of_kind.hpp"

namespace shardsim {

UnitsOfKind::UnitsOfKind(const Model& inner, WeightKind kind) : ModelWrapper(inner) {
  std::vector<int> number_of;  // By unit of the inner model; -1: of the other kind.
  for (const ParameterUnit& unit : inner.units()) {
    const ParameterSpec& first = inner.parameters()[static_cast<std::size_t>(unit.first)];
    const bool meant = first.expert == (kind == WeightKind::expert);
    number_of.push_back(meant ? static_cast<int>(units_.size()) : -1);
    if (meant) units_.push_back(unit);
  }
  for (int module = 0; module < inner.num_modules(); ++module) {
    std::vector<int>& numbers = module_units_.emplace_back();
    for (const int unit : inner.units_of(module)) {
      const int number = number_of[static_cast<std::size_t>(unit)];
      if (number >= 0) numbers.push_back(number);
    }
  }
}

}  // namespace shardsim
