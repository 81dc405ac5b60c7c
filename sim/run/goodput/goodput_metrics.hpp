#pragma once

#include <cstdint>
#include <vector>

#include "reports/result.hpp"
#include "sim/experiment/experiment.hpp"
#include "sim/run/goodput/goodput.hpp"

// The goodput of an experiment, and of a result.
namespace shardsim {

/// Weights, master weights if they differ from the weights, and optimizer state, each once.
[[nodiscard]] std::int64_t checkpoint_bytes(const Experiment& experiment);

/// Rates of all GPUs and nodes together. REQUIRES: it has failures.
[[nodiscard]] FailureModel failure_model_of(const Experiment& experiment);

/// goodput.*, with tokens_per_s of `metrics`; nothing without failures.
void add_goodput(const Experiment& experiment, std::vector<Metric>& metrics);

}  // namespace shardsim
