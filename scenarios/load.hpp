#pragma once

#include <string>
#include <vector>

#include "scenarios/limits.hpp"
#include "scenarios/scenario.hpp"
#include "scenarios/scenario_error.hpp"

// From a file to a Scenario. All problems are found in one pass and thrown together.
namespace shardsim {

/// Reads, merges and checks the scenario in the file `path`. Presets are looked for beside it, then
/// in the built-in folder. Each override is "a.b=value", as given to --set, and wins over the file.
/// Throws ScenarioError.
Scenario load_scenario(const std::string& path, const std::vector<std::string>& overrides = {},
                       const LoadLimits& limits = {});

/// The same for a text; `file_name` is used in errors and to find presets beside it.
Scenario load_scenario_text(const std::string& text, const std::string& file_name,
                            const std::vector<std::string>& overrides = {},
                            const LoadLimits& limits = {});

}  // namespace shardsim
