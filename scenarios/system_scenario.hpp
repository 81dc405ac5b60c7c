#pragma once

#include <string>
#include <vector>

#include "sim/kernel/error.hpp"

#include "scenarios/scenario.hpp"

namespace shardsim {

/// Whether `system` names a scenario's file instead of a preset.
[[nodiscard]] bool names_a_file(const std::string& system);

/// A scenario with this system, a preset or a scenario's file. `overrides`: as --set. Throws
/// UsageError (E1087), and ScenarioError.
[[nodiscard]] Scenario scenario_of_system(const std::string& system,
                                          const std::vector<std::string>& overrides);

/// E1087: there is no such machine.
[[nodiscard]] UsageError no_such_machine(const std::string& message, const std::string& fix);

}  // namespace shardsim
