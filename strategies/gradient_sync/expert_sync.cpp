#include "strategies/gradient_sync/expert_sync.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace shardsim {

ExpertSync::ExpertSync(const Model& model, std::unique_ptr<GradientSync> dense,
                       std::unique_ptr<GradientSync> experts)
    : model_(model), dense_(std::move(dense)), experts_(std::move(experts)) {}

void ExpertSync::before_forward(int module) {
  dense_->before_forward(module);
  experts_->before_forward(module);
}

void ExpertSync::after_forward(int module) {
  dense_->after_forward(module);
  experts_->after_forward(module);
}

void ExpertSync::before_backward(int module) {
  dense_->before_backward(module);
  experts_->before_backward(module);
}

void ExpertSync::after_backward(int module) {
  dense_->after_backward(module);
  experts_->after_backward(module);
}

void ExpertSync::after_weight_gradients(int module) {
  dense_->after_weight_gradients(module);
  experts_->after_weight_gradients(module);
}

void ExpertSync::begin_step() {
  dense_->begin_step();
  experts_->begin_step();
}

void ExpertSync::begin_weight_gradients(int chunk, bool last) {
  dense_->begin_weight_gradients(chunk, last);
  experts_->begin_weight_gradients(chunk, last);
}

void ExpertSync::finish_gradients() {
  dense_->finish_gradients();
  experts_->finish_gradients();
}

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

void ExpertSync::apply_optimizer(double gradient_scale, std::int64_t step) {
  dense_->apply_optimizer(gradient_scale, step);
  experts_->apply_optimizer(gradient_scale, step);
}

void ExpertSync::visit(StateKind kind, const StateVisitor& visitor) const {
  dense_->visit(kind, visitor);
  experts_->visit(kind, visitor);
}

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
