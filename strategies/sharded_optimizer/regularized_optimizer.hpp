#pragma once

#include "strategies/optimizer/optimizer.hpp"

namespace shardsim {

/// Penalties on the weights, as terms of the gradient.
struct Regularization {
  double l1 = 0.0;  ///< Adds l1 * sign(w), with sign(0) = 0: the subgradient of l1 * |w|.
  double l2 = 0.0;  ///< Adds l2 * w: the gradient of l2 / 2 * w^2.

  [[nodiscard]] bool acts() const { return l1 != 0.0 || l2 != 0.0; }
  friend bool operator==(const Regularization&, const Regularization&) = default;
};

/// Any optimizer, which then sees gradient * gradient_scale + penalty: what is clipped is the
/// gradient of the loss. Each element by itself, so it is the same for a shard as for the whole.
/// The sum takes memory as wide as the master weights of what is updated at once. Throws UsageError
/// unless both are finite and 0 or more.
class RegularizedOptimizer final : public Optimizer {
 public:
  /// `inner` must outlive it.
  RegularizedOptimizer(const Optimizer& inner, const Regularization& penalty);

  [[nodiscard]] std::string_view name() const override { return inner_.name(); }
  [[nodiscard]] std::span<const std::string_view> state_names() const override {
    return inner_.state_names();
  }
  [[nodiscard]] const OptimizerOptions& options() const override { return inner_.options(); }
  [[nodiscard]] UpdateRule update_rule() const override { return inner_.update_rule(); }
  void step(Runtime& runtime, const Tensor& parameter, const Tensor& gradient,
            std::span<const Tensor> state, double gradient_scale, std::int64_t step) const override;

 private:
  const Optimizer& inner_;
  Regularization penalty_;
};

}  // namespace shardsim
