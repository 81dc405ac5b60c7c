#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reports/result.hpp"
#include "reports/run_detail.hpp"
#include "scenarios/scenario.hpp"
#include "sim/experiment/experiment.hpp"
#include "sim/run/run.hpp"

// How much a step depends on each quantity of the machine, and on the batch.
namespace shardsim {

/// A quantity of a scenario with another value, as --set takes it.
struct SensitivityVariant {
  std::string quantity;
  double by = 0;  ///< The change that was made: that of the batch is a multiple of a microbatch.
  std::string setting;
  std::vector<std::string> overrides;
};

/// Computing (the peaks of all precisions), memory bandwidth, links inside a node and between
/// nodes, each `by` less and more; then the batch with as many samples less and more as come
/// nearest to that. Quantities that the scenario lacks, such as links between nodes on one node,
/// are left out. REQUIRES: 0 < by < 1.
[[nodiscard]] std::vector<SensitivityVariant> sensitivity_variants(const Experiment& experiment,
                                                                   double by);

/// Loads the scenario with these overrides after its own. Throws Error.
using LoadVariant = std::function<Scenario(const std::vector<std::string>& overrides)>;

/// Runs every variant of the experiment, whose own result is `result`: as many runs as bars, in
/// parallel where `hooks` say so. A variant that cannot run has a note and no numbers. Outputs of
/// the scenario are not written.
[[nodiscard]] std::vector<SensitivityBar> sensitivity_of(const Experiment& experiment,
                                                         const Result& result, double by,
                                                         const LoadVariant& load,
                                                         const RunHooks& hooks);

}  // namespace shardsim
