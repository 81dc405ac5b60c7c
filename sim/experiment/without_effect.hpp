#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/kernel/tracked.hpp"

#include "reports/result.hpp"
#include "scenarios/scenario.hpp"

// Finds the chosen fields that a run did not need (docs/decisions/0054-fields-without-effect.md).
// scenario.warnings already has what is known before a run.
namespace shardsim {

/// How the one line about fields_of_values() begins.
inline constexpr std::string_view kOnlyValues = "These fields change only the values of tensors";

/// Fields whose values nothing in the run read, or that lost each time against a stricter limit,
/// which is then named. A required field is named only if it lost against one that nobody wrote.
/// `reads`: the log of the whole run. In the order of the field table, chosen fields first.
[[nodiscard]] std::vector<std::string> fields_without_effect(const Scenario& scenario,
                                                             const ReadLog& reads);

/// One line for all chosen fields that only values of tensors depend on. Returns none if there are
/// no such fields, or if the run has values.
[[nodiscard]] std::optional<Assumption> fields_of_values(const Scenario& scenario);

}  // namespace shardsim
