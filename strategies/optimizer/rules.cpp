#include "strategies/optimizer/rules.hpp"

#include <algorithm>
#include <cmath>

#include "sim/kernel/error.hpp"

#include "strategies/named_rows.hpp"

// Definitions are those of torch.optim, so that a plan's numbers mean what users expect of these
// names: weight decay is a term of the gradient except in adamw, epsilon is added outside the root.
namespace shardsim {

namespace {

// Source: torch.optim.SGD.
void sgd(const StepConstants& c, Element& e) {
  const double gradient = e.gradient + c.options.weight_decay * e.parameter;
  e.parameter -= c.options.learning_rate * gradient;
}

// The first step's buffer is the gradient itself, which is what a zero buffer gives.
void momentum(const StepConstants& c, Element& e) {
  double& buffer = e.state[0];
  const double gradient = e.gradient + c.options.weight_decay * e.parameter;
  buffer = c.options.momentum * buffer + gradient;
  e.parameter -= c.options.learning_rate * buffer;
}

// Both Adams share the moments; they differ in where the decay goes.
void adam_update(const StepConstants& c, double gradient, Element& e) {
  double& exp_avg = e.state[0];
  double& exp_avg_sq = e.state[1];
  exp_avg = c.options.beta1 * exp_avg + (1.0 - c.options.beta1) * gradient;
  exp_avg_sq = c.options.beta2 * exp_avg_sq + (1.0 - c.options.beta2) * gradient * gradient;
  const double step_size = c.options.learning_rate / c.bias_correction1;
  const double root = std::sqrt(exp_avg_sq) / std::sqrt(c.bias_correction2);
  e.parameter -= step_size * exp_avg / (root + c.options.epsilon);
}

// Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization" (2015).
void adam(const StepConstants& c, Element& e) {
  adam_update(c, e.gradient + c.options.weight_decay * e.parameter, e);
}

// Source: Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2019).
void adamw(const StepConstants& c, Element& e) {
  e.parameter *= 1.0 - c.options.learning_rate * c.options.weight_decay;
  adam_update(c, e.gradient, e);
}

// Source: torch.optim.RMSprop, without centering and momentum.
void rmsprop(const StepConstants& c, Element& e) {
  double& square_avg = e.state[0];
  const double gradient = e.gradient + c.options.weight_decay * e.parameter;
  square_avg = c.options.rms_alpha * square_avg + (1.0 - c.options.rms_alpha) * gradient * gradient;
  e.parameter -= c.options.learning_rate * gradient / (std::sqrt(square_avg) + c.options.epsilon);
}

// Source: Chen et al., "Symbolic Discovery of Optimization Algorithms" (2023), algorithm 2; sign(0)
// is 0.
void lion(const StepConstants& c, Element& e) {
  double& exp_avg = e.state[0];
  const double moved = c.options.beta1 * exp_avg + (1.0 - c.options.beta1) * e.gradient;
  e.parameter *= 1.0 - c.options.learning_rate * c.options.weight_decay;
  if (moved != 0.0) e.parameter -= std::copysign(c.options.learning_rate, moved);
  exp_avg = c.options.beta2 * exp_avg + (1.0 - c.options.beta2) * e.gradient;
}

constexpr std::array<std::string_view, 1> kMomentumStates = {"momentum_buffer"};
constexpr std::array<std::string_view, 2> kAdamStates = {"exp_avg", "exp_avg_sq"};
constexpr std::array<std::string_view, 1> kRmspropStates = {"square_avg"};
constexpr std::array<std::string_view, 1> kLionStates = {"exp_avg"};

constexpr std::array<OptimizerSetting, 1> kMomentumSettings = {&OptimizerOptions::momentum};
constexpr std::array<OptimizerSetting, 3> kAdamSettings = {
    &OptimizerOptions::beta1, &OptimizerOptions::beta2, &OptimizerOptions::epsilon};
constexpr std::array<OptimizerSetting, 2> kLionSettings = {&OptimizerOptions::beta1,
                                                           &OptimizerOptions::beta2};
constexpr std::array<OptimizerSetting, 2> kRmspropSettings = {&OptimizerOptions::rms_alpha,
                                                              &OptimizerOptions::epsilon};

// Each row names all members: GCC 12 loses defaults of members in nested constant arrays. The Adam
// of Megatron-LM and of DeepSpeed decouples its decay.
constexpr OptimizerRule kSgd = {.name = "sgd",
                                .state_names = {},
                                .update = sgd,
                                .settings = {},
                                .decouples_decay = false,
                                .takes_signs = false,
                                .default_weight_decay = 0.0,
                                .elsewhere = {{}, {}, {}}};

constexpr OptimizerRule kAdamw = {.name = "adamw",
                                  .state_names = kAdamStates,
                                  .update = adamw,
                                  .settings = kAdamSettings,
                                  .decouples_decay = true,
                                  .takes_signs = false,
                                  .default_weight_decay = 0.01,
                                  .elsewhere = {{"adam"}, {"AdamW"}, {"AdamW", "Adam"}}};

constexpr std::array<OptimizerRule, 6> kRules = {{
    kSgd,
    {.name = "momentum",
     .state_names = kMomentumStates,
     .update = momentum,
     .settings = kMomentumSettings,
     .decouples_decay = false,
     .takes_signs = false,
     .default_weight_decay = 0.0,
     .elsewhere = {{"sgd"}, {}, {"SGD"}}},
    {.name = "adam",
     .state_names = kAdamStates,
     .update = adam,
     .settings = kAdamSettings,
     .decouples_decay = false,
     .takes_signs = false,
     .default_weight_decay = 0.0,
     .elsewhere = {{}, {"Adam"}, {}}},
    kAdamw,
    {.name = "rmsprop",
     .state_names = kRmspropStates,
     .update = rmsprop,
     .settings = kRmspropSettings,
     .decouples_decay = false,
     .takes_signs = false,
     .default_weight_decay = 0.0,
     .elsewhere = {{}, {}, {}}},
    {.name = "lion",
     .state_names = kLionStates,
     .update = lion,
     .settings = kLionSettings,
     .decouples_decay = true,
     .takes_signs = true,
     .default_weight_decay = 0.0,
     .elsewhere = {{"lion"}, {}, {}}},
}};

// base^exponent by squaring: rounded multiplications only, in a fixed order.
double integer_power(double base, std::int64_t exponent) {
  double result = 1.0;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result *= base;
    base *= base;
  }
  return result;
}

}  // namespace

bool OptimizerRule::reads(OptimizerSetting setting) const {
  return std::find(settings.begin(), settings.end(), setting) != settings.end();
}

bool OptimizerRule::divides_decay() const {
  return reads(&OptimizerOptions::epsilon) && !decouples_decay;
}

std::string_view default_optimizer() { return kAdamw.name; }
std::string_view plain_optimizer() { return kSgd.name; }

std::span<const OptimizerRule> optimizer_rules() { return kRules; }

const OptimizerRule& optimizer_rule(std::string_view name) {
  for (const OptimizerRule& rule : kRules) {
    if (rule.name == name) return rule;
  }
  const auto all = [](const OptimizerRule&) { return true; };
  throw UsageError("E0604", "there is no optimizer \"" + std::string(name) + "\"",
                   "use one of " + names_of_optimizers(all, ", "));
}

const OptimizerRule* optimizer_called(std::string_view theirs,
                                      OptimizerAliases OptimizerNames::*framework) {
  for (const OptimizerRule& rule : kRules) {
    const OptimizerAliases& names = rule.elsewhere.*framework;
    const bool is_named = std::find(names.begin(), names.end(), theirs) != names.end();
    if (is_named && !theirs.empty()) return &rule;
  }
  return nullptr;
}

std::string names_of_optimizers(const std::function<bool(const OptimizerRule&)>& selects,
                                std::string_view last) {
  return names_that(kRules, selects, last, "");
}

StepConstants step_constants(const OptimizerOptions& options, std::int64_t step) {
  return {options, 1.0 - integer_power(options.beta1, step),
          1.0 - integer_power(options.beta2, step)};
}

}  // namespace shardsim
