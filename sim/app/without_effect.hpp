#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/kernel/tracked.hpp"

#include "reports/result.hpp"
#include "scenarios/scenario.hpp"

// What somebody chose in a scenario and a run did not need (docs/decisions/0054-fields-without-
// effect.md). What can be said before a run is among scenario.warnings already.
namespace shardsim {

/// Fields whose values were read by nothing in the run, or that lost against a stricter limit
/// each time, which is then named. `reads`: of the whole run. In the order of the field table.
[[nodiscard]] std::vector<std::string> fields_without_effect(const Scenario& scenario,
                                                             const ReadLog& reads);

/// One line for all fields that only values of tensors depend on; none if nobody chose any, or the
/// run has values.
[[nodiscard]] std::optional<Assumption> fields_of_values(const Scenario& scenario);

}  // namespace shardsim
