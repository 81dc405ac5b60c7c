#pragma once

#include <vector>

#include "reports/result.hpp"
#include "reports/run_detail.hpp"
#include "sim/experiment/experiment.hpp"

// How long a whole training takes, and what it costs, if every step is like the one simulated.
namespace shardsim {

/// From the metric tokens_per_s of `result`, or goodput.effective_tokens_per_s where it has one.
/// days = tokens_total / rate / 86400; GPU hours = days x 24 x ranks; USD = GPU hours x price. All
/// zero where no tokens are said, or none pass.
[[nodiscard]] CostEstimate cost_of(const Experiment& experiment, const Result& result);

/// cost.days, cost.gpu_hours and cost.usd, where they are known, and what they assume.
void add_cost(const Experiment& experiment, Result& result);

}  // namespace shardsim
