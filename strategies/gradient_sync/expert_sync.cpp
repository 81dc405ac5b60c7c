#include "strategies/gradient_sync/expert_sync.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace shardsim {

ExpertSync::ExpertSync(const Model& model, std::unique_ptr<GradientSync> dense,
                       std::unique_ptr<GradientSync> experts)
    : model_(model), dense_(std::move(dense)), experts_(std::move(experts)) {}

bool ExpertSync::found_inf() {
  const bool in_dense = dense_->found_inf();
  const bool in_experts = experts_->found_inf();  // Communicates: asked in any case.
  return in_dense || in_experts;
}

double ExpertSync::gradient_norm(NormType type) {
  const double dense = dense_->gradient_norm(type);
  const double experts = experts_->gradient_norm(type);
  return type == NormType::two ? std::sqrt(dense * dense + experts * experts)
                               : std::max(dense, experts);
}

UnitsOfKind::UnitsOfKind(const Model& inner, WeightKind kind) : OtherUnits(inner) {
  std::vector<int> number_of;
  for (const ParameterUnit& unit : inner.units()) {
    const bool meant = spec_of(inner, unit.first).expert == (kind == WeightKind::expert);
    number_of.push_back(meant ? static_cast<int>(units_.size()) : kNoUnit);
    if (meant) units_.push_back(unit);
  }
  list_units(number_of);
}

}  // namespace shardsim
