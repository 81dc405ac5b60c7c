#pragma once

#include <string>

// The built-in models and machines, a row each.
namespace shardsim {

/// Which presets are listed.
enum class PresetKinds { all, models, systems };

/// Tables for people: sizes of models, peaks and memory of machines, and where they come from.
/// Throws ScenarioError if a preset cannot be read.
[[nodiscard]] std::string preset_table(PresetKinds kinds);

/// {"models": [...], "systems": [...]}, without the list that is not asked for; units are in the
/// keys. Ends in a newline. Throws ScenarioError.
[[nodiscard]] std::string preset_json(PresetKinds kinds);

}  // namespace shardsim
