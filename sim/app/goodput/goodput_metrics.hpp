#pragma once

#include <cstdint>
#include <vector>

#include "reports/result.hpp"
#include "scenarios/scenario.hpp"
#include "sim/app/goodput/goodput.hpp"

// The goodput of a scenario, and of a result.
namespace shardsim {

/// Weights, master weights where they are others, and optimizer state, each once.
[[nodiscard]] std::int64_t checkpoint_bytes(const Scenario& scenario);

/// Rates of all GPUs and nodes together. REQUIRES: scenario.faults.has_failures().
[[nodiscard]] FailureModel failure_model_of(const Scenario& scenario);

/// goodput.*, with tokens_per_s of `metrics`; nothing without failures.
void add_goodput(const Scenario& scenario, std::vector<Metric>& metrics);

}  // namespace shardsim
