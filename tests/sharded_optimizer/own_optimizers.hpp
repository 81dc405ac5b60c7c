#pragma once

#include "strategies/optimizer/optimizer.hpp"

namespace shardsim::test {

/// An optimizer that is not ours, with state: w -= rate * sign(g), counting its steps per element.
class SignSgd final : public Optimizer {
 public:
  explicit SignSgd(UpdateRule rule = UpdateRule::elementwise) : rule_(rule) {}

  [[nodiscard]] std::string_view name() const override { return "sign_sgd"; }
  [[nodiscard]] const OptimizerOptions& options() const override { return options_; }
  [[nodiscard]] UpdateRule update_rule() const override { return rule_; }
  [[nodiscard]] std::span<const std::string_view> state_names() const override { return kStates; }
  void step(Runtime& runtime, const Tensor& parameter, const Tensor& gradient,
            std::span<const Tensor> state, double gradient_scale, std::int64_t) const override {
    const ComputeOp op{"sign_sgd", ComputeKind::memory_bound, parameter.dtype(), 0,
                       2 * parameter.num_bytes()};
    runtime.compute(op, [&] {
      for (std::int64_t i = 0; i < parameter.numel(); ++i) {
        const double g = gradient.get(i) * gradient_scale;
        const double sign = g > 0.0 ? 1.0 : g < 0.0 ? -1.0 : 0.0;
        parameter.set(i, parameter.get(i) - options_.learning_rate * sign);
        state[0].set(i, state[0].get(i) + 1.0);
      }
    });
  }

 private:
  static constexpr std::string_view kStates[] = {"count"};
  UpdateRule rule_;
  OptimizerOptions options_{.learning_rate = 0.125};
};

}  // namespace shardsim::test
