#pragma once

#include <memory>
#include <vector>

#include "strategies/gradient_sync/gradient_sync.hpp"
#include "strategies/mesh.hpp"
#include "strategies/model/model_wrapper.hpp"

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
  void before_forward(int module) override;
  void after_forward(int module) override;
  void before_backward(int module) override;
  void after_backward(int module) override;
  void after_weight_gradients(int module) override;
  void begin_step() override;
  void begin_weight_gradients(int chunk, bool last) override;
  void finish_gradients() override;
  [[nodiscard]] bool found_inf() override;
  [[nodiscard]] double gradient_norm(NormType type) override;
  void apply_optimizer(double gradient_scale, std::int64_t step) override;
  void visit(StateKind kind, const StateVisitor& visitor) const override;

 private:
  [[nodiscard]] GradientSync& of(int parameter) {
    return model_.parameters()[static_cast<std::size_t>(parameter)].expert ? *experts_ : *dense_;
  }

  const Model& model_;
  std::unique_ptr<GradientSync> dense_;
  std::unique_ptr<GradientSync> experts_;
};

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
