#pragma once

#include <functional>
#include <memory>

#include "strategies/gradient_sync/gradient_sync.hpp"
#include "strategies/mesh.hpp"

// The weights of experts, whose copies lie on other ranks than those of the weights around them.
namespace shardsim {

/// Two gradient synchronizations as one: of dense weights and of experts', which other ranks keep
/// copies of. Each parameter belongs to one of them. Every call goes to both, the experts' last, in
/// the same order on all ranks; all gradients together have one norm, and one overflow skips all.
/// Gradients stay sums: an expert's rank has already added those of all tokens that came to it.
class ExpertSync final : public GradientSync {
 public:
  /// `model`: says which parameters are experts'; must outlive it.
  ExpertSync(const Model& model, std::unique_ptr<GradientSync> dense,
             std::unique_ptr<GradientSync> experts);

  Tensor weight(int parameter) override { return of(parameter).weight(parameter); }
  Tensor gradient(int parameter) override { return of(parameter).gradient(parameter); }
  void gradient_ready(int parameter) override { of(parameter).gradient_ready(parameter); }
  [[nodiscard]] bool is_settled(int parameter) const override {
    return of(parameter).is_settled(parameter);
  }
  [[nodiscard]] bool keeps_weights() const override { return dense_->keeps_weights(); }
  void before_forward(int module) override { both(&GradientSync::before_forward, module); }
  void after_forward(int module) override { both(&GradientSync::after_forward, module); }
  void before_backward(int module) override { both(&GradientSync::before_backward, module); }
  void after_backward(int module) override { both(&GradientSync::after_backward, module); }
  void after_weight_gradients(int module) override {
    both(&GradientSync::after_weight_gradients, module);
  }
  void begin_step() override { both(&GradientSync::begin_step); }
  void begin_weight_gradients(int chunk, bool last) override {
    both(&GradientSync::begin_weight_gradients, chunk, last);
  }
  void finish_gradients() override { both(&GradientSync::finish_gradients); }
  [[nodiscard]] bool found_inf() override;
  [[nodiscard]] double gradient_norm(NormType type) override;
  void apply_optimizer(double gradient_scale, std::int64_t step) override {
    both(&GradientSync::apply_optimizer, gradient_scale, step);
  }
  void visit(StateKind kind, const StateVisitor& visitor) const override {
    both(&GradientSync::visit, kind, visitor);
  }

 private:
  [[nodiscard]] GradientSync& of(int parameter) const {
    return spec_of(model_, parameter).expert ? *experts_ : *dense_;
  }
  template <class Hook, class... Values>
  void both(Hook hook, const Values&... values) const {
    std::invoke(hook, *dense_, values...);
    std::invoke(hook, *experts_, values...);
  }

  const Model& model_;
  std::unique_ptr<GradientSync> dense_;
  std::unique_ptr<GradientSync> experts_;
};

/// The same model to one of two gradient synchronizations: units are only those with weights of one
/// kind, numbered anew. Parameters keep their numbers; those of the other kind are in no unit.
class UnitsOfKind final : public OtherUnits {
 public:
  /// `inner` must outlive it. REQUIRES: no unit of `inner` has weights of both kinds.
  UnitsOfKind(const Model& inner, WeightKind kind);
};

}  // namespace shardsim
