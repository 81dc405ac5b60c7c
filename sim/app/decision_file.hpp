#pragma once

#include <string>

#include "backends/decision_log.hpp"

#include "scenarios/scenario.hpp"

// Decisions of a run with data as a file, for the plan of the same training. Version 1:
//   {"format": "shardsim-decisions", "version": 1, "ranks": 8, "training": "1f0c...",
//    "decisions": [{"name": "skip step", "ranks": [0, 7], "answers": "110000"}]}
// "training" stands for everything values depend on: model, parallelism, training, steps, seed and
// reduction order. The machine is not in it. Consecutive ranks with the same answers share a row, 1
// is yes; a rank without a row never took the decision.
namespace shardsim {

[[nodiscard]] std::string to_text(const DecisionLog& decisions, const Scenario& scenario);

/// Throws UsageError: E0909 for what is no such file, E0908 for one of another training. `path`:
/// for messages.
[[nodiscard]] DecisionLog parse_decisions(const std::string& text, const Scenario& scenario,
                                          const std::string& path);

}  // namespace shardsim
