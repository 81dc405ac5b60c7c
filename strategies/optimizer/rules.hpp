#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "strategies/optimizer/optimizer.hpp"

// An elementwise optimizer is a rule: what it keeps per element, and how one element moves. A new
// optimizer is one function and one row in the table of rules.cpp: all other code asks the row.
namespace shardsim {

inline constexpr std::size_t kMaxOptimizerStates = 2;

/// Values that are the same for all elements of a step.
struct StepConstants {
  OptimizerOptions options;
  double bias_correction1 = 1.0;  ///< 1 - beta1^step.
  double bias_correction2 = 1.0;  ///< 1 - beta2^step.
};

/// One element, in double: `state` is in the order of the rule's names.
struct Element {
  double parameter = 0.0;
  double gradient = 0.0;
  std::array<double, kMaxOptimizerStates> state{};
};

/// One of the settings, as &OptimizerOptions::beta1.
using OptimizerSetting = double OptimizerOptions::*;

/// Names of one optimizer in the configurations of another framework; empty ones are none.
using OptimizerAliases = std::array<std::string_view, 2>;

struct OptimizerNames {
  OptimizerAliases megatron;    ///< --optimizer
  OptimizerAliases torchtitan;  ///< [optimizer] name
  OptimizerAliases deepspeed;   ///< "optimizer": {"type": ...}
};

struct OptimizerRule {
  std::string_view name;
  std::span<const std::string_view> state_names;
  void (*update)(const StepConstants& constants, Element& element);
  /// The settings it reads beside learning_rate and weight_decay.
  std::span<const OptimizerSetting> settings;
  /// Whether weight decay is apart from the gradient and not a term of it.
  bool decouples_decay;
  /// Whether a gradient that is all rounding moves its weight as far as any other does.
  bool takes_signs;
  double default_weight_decay;
  OptimizerNames elsewhere;

  [[nodiscard]] bool reads(OptimizerSetting setting) const;
  /// Whether weight decay is part of a gradient that is divided by its own size (plus epsilon).
  [[nodiscard]] bool divides_decay() const;
};

/// All rules, in the order in which they are listed to users.
[[nodiscard]] std::span<const OptimizerRule> optimizer_rules();

/// The rule of a name, or UsageError E0604 that lists the names.
[[nodiscard]] const OptimizerRule& optimizer_rule(std::string_view name);

/// The rule that another framework calls `theirs`, or null:
/// `optimizer_called("Adam", &OptimizerNames::deepspeed)`.
[[nodiscard]] const OptimizerRule* optimizer_called(std::string_view theirs,
                                                    OptimizerAliases OptimizerNames::*framework);

/// The names of the rules that `selects`, as "adam, adamw or rmsprop"; `last` stands before the
/// last of them.
[[nodiscard]] std::string names_of_optimizers(
    const std::function<bool(const OptimizerRule&)>& selects, std::string_view last = " or ");

/// Constants of step `step`, counted from 1. Powers are built from multiplications alone, so they
/// are the same bits everywhere.
[[nodiscard]] StepConstants step_constants(const OptimizerOptions& options, std::int64_t step);

}  // namespace shardsim
