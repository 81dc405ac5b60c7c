#pragma once

#include <memory>
#include <utility>

#include "strategies/gradient_sync/gradient_sync.hpp"

namespace shardsim {

/// Another gradient synchronization, passed on as it is. Derive from it, and override the one thing
/// that is to change (docs/guide/check.md has an example).
class GradientSyncWrapper : public GradientSync {
 public:
  /// `inner` must outlive it.
  explicit GradientSyncWrapper(GradientSync& inner) : inner_(inner) {}
  explicit GradientSyncWrapper(std::unique_ptr<GradientSync> inner)
      : owned_(std::move(inner)), inner_(*owned_) {}

  Tensor weight(int parameter) override { return inner_.weight(parameter); }
  Tensor gradient(int parameter) override { return inner_.gradient(parameter); }
  void gradient_ready(int parameter) override { inner_.gradient_ready(parameter); }
  [[nodiscard]] bool is_settled(int parameter) const override {
    return inner_.is_settled(parameter);
  }
  [[nodiscard]] bool keeps_weights() const override { return inner_.keeps_weights(); }
  void before_forward(int module) override { inner_.before_forward(module); }
  void after_forward(int module) override { inner_.after_forward(module); }
  void before_backward(int module) override { inner_.before_backward(module); }
  void after_backward(int module) override { inner_.after_backward(module); }
  void after_weight_gradients(int module) override { inner_.after_weight_gradients(module); }
  void begin_step() override { inner_.begin_step(); }
  void begin_weight_gradients(int chunk, bool last) override {
    inner_.begin_weight_gradients(chunk, last);
  }
  void finish_gradients() override { inner_.finish_gradients(); }
  [[nodiscard]] bool has_gradients() const override { return inner_.has_gradients(); }
  void drain() override { inner_.drain(); }
  [[nodiscard]] bool found_inf() override { return inner_.found_inf(); }
  [[nodiscard]] double gradient_norm(NormType type) override { return inner_.gradient_norm(type); }
  void apply_optimizer(double gradient_scale, std::int64_t step) override {
    inner_.apply_optimizer(gradient_scale, step);
  }
  void visit(StateKind kind, const StateVisitor& visitor) const override {
    inner_.visit(kind, visitor);
  }

 private:
  std::unique_ptr<GradientSync> owned_;

 protected:
  GradientSync& inner_;
};

}  // namespace shardsim
