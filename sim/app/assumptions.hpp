#pragma once

#include <vector>

#include "backends/decision_log.hpp"

#include "reports/result.hpp"
#include "scenarios/scenario.hpp"

namespace shardsim {

/// What the numbers rest on: the model's own simplifications, the record of decisions that is
/// replayed (null: none), and the sources of all hardware and model numbers.
[[nodiscard]] std::vector<Assumption> assumptions_of(const Scenario& scenario,
                                                     const DecisionLog* replay = nullptr);

}  // namespace shardsim
