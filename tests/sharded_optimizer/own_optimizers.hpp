#pragma once

#include <cmath>
#include <utility>
#include <vector>

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

/// AMSGrad (Reddi et al. 2018), without bias corrections: three states to an element.
class AmsGrad final : public Optimizer {
 public:
  [[nodiscard]] std::string_view name() const override { return "amsgrad"; }
  [[nodiscard]] const OptimizerOptions& options() const override { return options_; }
  [[nodiscard]] std::span<const std::string_view> state_names() const override { return kStates; }
  void step(Runtime& runtime, const Tensor& parameter, const Tensor& gradient,
            std::span<const Tensor> state, double gradient_scale, std::int64_t) const override {
    const ComputeOp op{"amsgrad", ComputeKind::memory_bound, parameter.dtype(), 0,
                       8 * parameter.num_bytes()};
    runtime.compute(op, [&] {
      for (std::int64_t i = 0; i < parameter.numel(); ++i) {
        const double g = gradient.get(i) * gradient_scale;
        const double first = 0.5 * state[0].get(i) + 0.5 * g;
        const double second = 0.75 * state[1].get(i) + 0.25 * g * g;
        const double largest = std::fmax(state[2].get(i), second);
        parameter.set(i, parameter.get(i) - 0.125 * first / (std::sqrt(largest) + 1e-4));
        state[0].set(i, first);
        state[1].set(i, second);
        state[2].set(i, largest);
      }
    });
  }

 private:
  static constexpr std::string_view kStates[] = {"mean", "square", "largest_square"};
  OptimizerOptions options_;
};

/// Every weight is NaN after its first step.
class Lossy final : public Optimizer {
 public:
  [[nodiscard]] std::string_view name() const override { return "lossy"; }
  [[nodiscard]] const OptimizerOptions& options() const override { return options_; }
  [[nodiscard]] std::span<const std::string_view> state_names() const override { return {}; }
  void step(Runtime& runtime, const Tensor& parameter, const Tensor&, std::span<const Tensor>,
            double, std::int64_t) const override {
    const ComputeOp op{"lossy", ComputeKind::memory_bound, parameter.dtype(), 0,
                       parameter.num_bytes()};
    runtime.compute(op, [&] {
      for (std::int64_t i = 0; i < parameter.numel(); ++i) parameter.set(i, std::nan(""));
    });
  }

 private:
  OptimizerOptions options_;
};

/// Sgd with states of these names, which it does not use.
class Named final : public Optimizer {
 public:
  explicit Named(std::vector<std::string_view> names) : names_(std::move(names)) {}

  [[nodiscard]] std::string_view name() const override { return "named"; }
  [[nodiscard]] const OptimizerOptions& options() const override { return options_; }
  [[nodiscard]] std::span<const std::string_view> state_names() const override { return names_; }
  void step(Runtime&, const Tensor&, const Tensor&, std::span<const Tensor>, double,
            std::int64_t) const override {}

 private:
  std::vector<std::string_view> names_;
  OptimizerOptions options_;
};

}  // namespace shardsim::test
