#include "strategies/gradient_sync/grouped_units.hpp"

#include <algorithm>

namespace shardsim {

GroupedUnits::GroupedUnits(const Model& inner, std::int64_t minimum_numel) : ModelWrapper(inner) {
  std::vector<int> group_of;  // By unit of the inner model.
  std::int64_t numel = 0;     // Size of the group being filled.
  for (const ParameterUnit& unit : inner.units()) {
    const ParameterSpec& spec = inner.parameters()[static_cast<std::size_t>(unit.first)];
    const auto joins = [&] {
      if (units_.empty() || numel >= minimum_numel || spec.tied) return false;
      const ParameterUnit& last = units_.back();
      const ParameterSpec& before = inner.parameters()[static_cast<std::size_t>(last.first)];
      return !before.tied && before.chunk == spec.chunk && before.expert == spec.expert &&
             last.first + last.count == unit.first;
    };
    if (joins()) {
      units_.back().name += "+" + unit.name;
      units_.back().count += unit.count;
    } else {
      units_.push_back(unit);
      numel = 0;
    }
    for (int i = unit.first; i < unit.first + unit.count; ++i) {
      numel += inner.parameters()[static_cast<std::size_t>(i)].shape.numel();
    }
    group_of.push_back(static_cast<int>(units_.size()) - 1);
  }
  for (int module = 0; module < inner.num_modules(); ++module) {
    std::vector<int>& groups = module_units_.emplace_back();
    for (const int unit : inner.units_of(module)) {
      const int group = group_of[static_cast<std::size_t>(unit)];
      if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
    }
  }
}

}  // namespace shardsim
