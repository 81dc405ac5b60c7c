#pragma once

#include <string>
#include <vector>

#include "scenarios/scenario.hpp"

#include "sim/serve/serve_limits.hpp"

// A stranger's scenario, before anything runs.
namespace shardsim {

/// The name of a text without a file, in errors.
inline constexpr const char* kScenarioOfPage = "scenario.json";

/// Where a page's scenario may read: the built-in presets, and `folder` unless it is empty. For
/// ConfinedReading.
[[nodiscard]] std::vector<std::string> readable_folders(const std::string& folder);

/// Reads the scenario, whose files lie beside `folder`/scenario.json; an empty folder has none.
/// Throws ScenarioError: what the loader throws, E0361 for a run that is not a plan, E0362 for a
/// file to write, and E0367 for a long program.
[[nodiscard]] Scenario guarded_scenario(const std::string& text, const std::string& folder,
                                        const ServeLimits& limits);

}  // namespace shardsim
