#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/kernel/tracked.hpp"

#include "reports/result.hpp"
#include "scenarios/scenario.hpp"

// Finds the chosen fields that a run did not need (docs/decisions/0054-fields-without-effect.md).
// scenario.warnings already has what is known before a run.
namespace shardsim {

/// Fields whose values nothing in the run read, or that lost each time against a stricter limit,
/// which is then named. `reads`: the log of the whole run. In the order of the field table.
[[nodiscard]] std::vector<std::string> fields_without_effect(const Scenario& scenario,
                                                             const ReadLog& reads);

/// One line for all chosen fields that only values of tensors depend on. Returns none if there are
/// no such fields, or if the run has values.
[[nodiscard]] std::optional<Assumption> fields_of_values(const Scenario& scenario);

}  // namespace shardsim
