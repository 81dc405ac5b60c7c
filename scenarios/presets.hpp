#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/kernel/error.hpp"

#include "scenarios/json_value.hpp"
#include "scenarios/preset_folders.hpp"
#include "scenarios/scenario.hpp"
#include "scenarios/source_text.hpp"

// A scenario is made of layers: a preset at the bottom, what the file says over it, and --set flags
// on top. They are merged as JSON values that keep their places, before anything is read from them.
namespace shardsim {

/// A preset's name as a scenario has it: in quotes.
[[nodiscard]] std::string name_in_json(const std::string& name);

/// Whether `system` names a scenario's file instead of a preset.
[[nodiscard]] bool names_a_file(const std::string& system);

/// A scenario with this system, a preset or a scenario's file. `overrides`: as --set. The user's
/// own presets are those of a scenario in the folder `beside`. Throws UsageError (E1087), and
/// ScenarioError.
[[nodiscard]] Scenario scenario_of_system(const std::string& system,
                                          const std::vector<std::string>& overrides,
                                          const std::string& beside = kCurrentFolder);

/// The framework that scenarios/defaults/software.json names for layouts that no other row is for.
[[nodiscard]] std::string software_of_any_layout();

/// E1087: there is no such machine.
[[nodiscard]] UsageError no_such_machine(const std::string& message, const std::string& fix);

/// Takes what stands at `a.b` out of the document, if anything does.
void remove_path(JsonValue& document, const std::string& path);

/// Sets `a.b=value` in the document, one flag after the other. The value is JSON, or else a string;
/// null takes the field out, as if the document did not have it (E0107 for an unknown one).
/// Flags are kept in `texts`, because the values point into them.
void apply_overrides(JsonValue& document, const std::vector<std::string>& overrides,
                     SourceTexts& texts, ProblemList& problems);

struct MergedPresets {
  std::vector<std::string> broken;  ///< Sections whose preset could not be used.
  std::vector<std::string> idle;    ///< Those that have a value for all that their preset gives.
};

/// Puts the presets that `document` names below it; a section that is a string names one.
/// `directories` are searched in their order.
MergedPresets merge_presets(JsonValue& document, const std::vector<std::string>& directories,
                            SourceTexts& texts, ProblemList& problems);

}  // namespace shardsim
