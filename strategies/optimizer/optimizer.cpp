#include "strategies/optimizer/optimizer.hpp"

#include <cmath>
#include <string>

#include "sim/kernel/error.hpp"

#include "strategies/optimizer/rules.hpp"

namespace shardsim {

namespace {

void require_of_optimizer(bool holds, const char* name, double value, const char* fix) {
  if (!holds) {
    throw UsageError("E0605",
                     "an optimizer's " + std::string(name) + " is " + std::to_string(value), fix);
  }
}

void require_rate(const char* name, double rate) {
  require_of_optimizer(std::isfinite(rate) && rate >= 0.0, name, rate,
                       "give a finite number, 0 or more");
}

// From 1 on, a moment forgets nothing, or grows without end.
void require_decay(const char* name, double decay) {
  require_of_optimizer(decay >= 0.0 && decay < 1.0, name, decay,
                       "give a number of at least 0 and below 1");
}

void require_length(const Tensor& tensor, const char* what, std::int64_t length) {
  if (tensor.numel() == length) return;
  throw UsageError("E0601",
                   concat("an optimizer step has a parameter of ", length, " elements but a ", what,
                          " of ", tensor.numel()),
                   "pass the same slice of the parameter, its gradient and its state");
}

class ElementwiseOptimizer final : public Optimizer {
 public:
  ElementwiseOptimizer(const OptimizerRule& rule, const OptimizerOptions& options)
      : rule_(rule), options_(options) {}

  [[nodiscard]] std::string_view name() const override { return rule_.name; }
  [[nodiscard]] const OptimizerOptions& options() const override { return options_; }
  [[nodiscard]] std::span<const std::string_view> state_names() const override {
    return rule_.state_names;
  }

  void step(Runtime& runtime, const Tensor& parameter, const Tensor& gradient,
            std::span<const Tensor> state, double gradient_scale,
            std::int64_t step) const override {
    require(parameter, gradient, state, step);
    // Everything is read once; all but the gradient is written back.
    std::int64_t bytes = 2 * parameter.num_bytes() + gradient.num_bytes();
    for (const Tensor& tensor : state) bytes += 2 * tensor.num_bytes();
    const ComputeOp op{"optimizer_step",
                       ComputeKind::memory_bound,
                       parameter.dtype(),
                       0,
                       bytes,
                       {KernelFamily::optimizer_step}};
    runtime.compute(op, [&] {
      const StepConstants constants = step_constants(options_, step);
      for (std::int64_t i = 0; i < parameter.numel(); ++i) {
        Element element{parameter.get(i), gradient.get(i) * gradient_scale, {}};
        for (std::size_t k = 0; k < state.size(); ++k) element.state[k] = state[k].get(i);
        rule_.update(constants, element);
        parameter.set(i, element.parameter);
        for (std::size_t k = 0; k < state.size(); ++k) state[k].set(i, element.state[k]);
      }
    });
  }

 private:
  void require(const Tensor& parameter, const Tensor& gradient, std::span<const Tensor> state,
               std::int64_t step) const {
    require_length(gradient, "gradient", parameter.numel());
    if (state.size() != rule_.state_names.size()) {
      throw UsageError("E0602",
                       concat("optimizer ", rule_.name, " keeps ", rule_.state_names.size(),
                              " state tensors per parameter, got ", state.size()),
                       "pass one tensor for each of state_names(), in that order");
    }
    for (const Tensor& tensor : state) require_length(tensor, "state", parameter.numel());
    if (step < 1) {
      throw UsageError("E0603", "optimizer steps count from 1, got " + std::to_string(step),
                       "pass the number of this step: 1 for the first");
    }
  }

  OptimizerRule rule_;
  OptimizerOptions options_;
};

}  // namespace

void validate(const OptimizerOptions& options) {
  require_rate("learning_rate", options.learning_rate);
  require_rate("weight_decay", options.weight_decay);
  require_decay("momentum", options.momentum);
  require_decay("beta1", options.beta1);
  require_decay("beta2", options.beta2);
  require_decay("rms_alpha", options.rms_alpha);
  require_of_optimizer(std::isfinite(options.epsilon) && options.epsilon > 0.0, "epsilon",
                       options.epsilon, "give a finite number above 0: it keeps divisors from 0");
}

std::vector<std::string_view> optimizer_names() {
  std::vector<std::string_view> names;
  names.reserve(optimizer_rules().size());
  for (const OptimizerRule& rule : optimizer_rules()) names.push_back(rule.name);
  return names;
}

std::unique_ptr<Optimizer> make_optimizer(std::string_view name, const OptimizerOptions& options) {
  validate(options);
  return std::make_unique<ElementwiseOptimizer>(optimizer_rule(name), options);
}

}  // namespace shardsim
