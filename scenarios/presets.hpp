#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/kernel/error.hpp"

#include "scenarios/json_value.hpp"
#include "scenarios/scenario.hpp"
#include "scenarios/source_text.hpp"

// Presets are JSON files with the keys of one section: models/NAME.json, systems/NAME.json. They
// are looked for beside the scenario first and then in the built-in folder. The environment
// variable SHARDSIM_PRESETS names that folder. Without it, the folder is found from the place of
// the executable, since an installed tree or a checkout may be moved.
//
// A scenario is made of layers: a preset at the bottom, what the file says over it, and --set flags
// on top. They are merged as JSON values that keep their places, before anything is read from them.
namespace shardsim {

struct PresetInfo {
  std::string folder;  // "models" or "systems"
  std::string name;
  std::string path;
};

/// The folder of the built-in presets, for an executable at `executable` ("" if unknown: none). In
/// a build folder (sim/kernel/version.hpp) it is the checkout's; `root_from_build` is the path
/// from there to the checkout's root. Elsewhere it is the installation's.
std::vector<std::string> preset_directories_beside(const std::string& executable,
                                                   const std::string& root_from_build);

/// The folders in which the built-in presets are searched for.
std::vector<std::string> builtin_preset_directories();

/// "no presets were found in A, B; ...": what to tell when `directories` hold none.
std::string no_presets_help(const std::vector<std::string>& directories);

/// Every preset of `folder` in `directories`, by name; of two with one name the first directory's.
std::vector<PresetInfo> list_presets(const std::string& folder,
                                     const std::vector<std::string>& directories);
/// All built-in presets, models first.
std::vector<PresetInfo> list_builtin_presets();
/// The names of those in `folder`.
std::vector<std::string> builtin_preset_names(const std::string& folder);
/// The built-in system of this name or GPU: "dgx-h100" for "h100" and "H100", "hgx-h20" for "h20",
/// "gb200-nvl72" for "gb200".
[[nodiscard]] std::optional<std::string> system_of_gpu(const std::string& gpu);

/// The text of a preset's file. Throws ScenarioError if it cannot be read.
std::string preset_text(const PresetInfo& preset);

/// Whether `system` names a scenario's file instead of a preset.
[[nodiscard]] bool names_a_file(const std::string& system);

/// A scenario with this system, a preset or a scenario's file. `overrides`: as --set. Throws
/// UsageError (E1087), and ScenarioError.
[[nodiscard]] Scenario scenario_of_system(const std::string& system,
                                          const std::vector<std::string>& overrides);

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

/// Puts the presets that `document` names below it; a section that is a string names one. Returns
/// the sections whose preset could not be used. `directories` are searched in their order.
std::vector<std::string> merge_presets(JsonValue& document,
                                       const std::vector<std::string>& directories,
                                       SourceTexts& texts, ProblemList& problems);

}  // namespace shardsim
