#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "strategies/optimizer/optimizer.hpp"

// An elementwise optimizer is a rule: what it keeps per element, and how one element moves. A new
// optimizer is one function and one row in the table of rules.cpp.
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

struct OptimizerRule {
  std::string_view name;
  std::span<const std::string_view> state_names;
  void (*update)(const StepConstants& constants, Element& element);
};

/// All rules, in the order in which they are listed to users.
[[nodiscard]] std::span<const OptimizerRule> optimizer_rules();

/// Constants of step `step`, counted from 1. Powers are built from multiplications alone, so they
/// are the same bits everywhere.
[[nodiscard]] StepConstants step_constants(const OptimizerOptions& options, std::int64_t step);

}  // namespace shardsim
