#pragma once

#include <vector>

#include "reports/result.hpp"
#include "reports/run_detail.hpp"
#include "sim/experiment/experiment.hpp"

// The time and the cost of a whole training, if every step is like the simulated one.
namespace shardsim {

/// Uses the metric tokens_per_s of `result`, or goodput.effective_tokens_per_s if it has one. days
/// = tokens_total / rate / 86400; GPU hours = days x 24 x ranks; USD = GPU hours x price. All zero
/// if no tokens are given, or the rate is zero.
[[nodiscard]] CostEstimate cost_of(const Experiment& experiment, const Result& result);

/// Adds cost.days, cost.gpu_hours and cost.usd, if they are known, and their assumptions.
void add_cost(const Experiment& experiment, Result& result);

}  // namespace shardsim
