#pragma once

#include <optional>
#include <string>
#include <vector>

// Presets are JSON files with the keys of one section: models/NAME.json, systems/NAME.json. They
// are looked for beside the scenario first and then in the built-in folder. The environment
// variable SHARDSIM_PRESETS names that folder. Without it, the folder is found from the place of
// the executable, since an installed tree or a checkout may be moved.
//
// Where there is no scenario's file, as for `shardsim plan gpt2`, the user's own presets are those
// in the current folder.
namespace shardsim {

struct PresetInfo {
  std::string folder;  // "models" or "systems"
  std::string name;
  std::string path;
  bool is_own = false;  // It is the user's, beside the scenario.
};

/// The folder of a scenario that is in no file, and of one whose path has no folder.
inline constexpr const char* kCurrentFolder = "";

/// The folder of the built-in presets, for an executable at `executable` ("" if unknown: none). In
/// a build folder (sim/kernel/version.hpp) it is the checkout's; `root_from_build` is the path
/// from there to the checkout's root. Elsewhere it is the installation's.
std::vector<std::string> preset_directories_beside(const std::string& executable,
                                                   const std::string& root_from_build);

/// The folders in which the built-in presets are searched for.
std::vector<std::string> builtin_preset_directories();

/// Those in which the presets of a scenario in the folder `beside` are: that folder first.
std::vector<std::string> preset_directories(const std::string& beside);

/// "no presets were found in A, B; ...": what to tell when `directories` hold none.
std::string no_presets_help(const std::vector<std::string>& directories);

/// Every preset of `folder` in `directories`, by name; of two with one name the first directory's.
std::vector<PresetInfo> list_presets(const std::string& folder,
                                     const std::vector<std::string>& directories);
/// All built-in presets, models first.
std::vector<PresetInfo> list_builtin_presets();
/// All that a scenario in the folder `beside` can name, models first.
std::vector<PresetInfo> list_presets_of(const std::string& beside);

/// The names of the built-in ones in `folder`.
std::vector<std::string> builtin_preset_names(const std::string& folder);
/// The names in `folder` that a scenario in the folder `beside` can name.
std::vector<std::string> preset_names(const std::string& folder, const std::string& beside);

/// The one of `systems` with this name or GPU: "dgx-h100" for "h100" and "H100", "hgx-h20" for
/// "h20", "gb200-nvl72" for "gb200".
[[nodiscard]] std::optional<std::string> system_of_gpu(const std::string& gpu,
                                                       const std::vector<std::string>& systems);

/// The text of a preset's file. Throws ScenarioError if it cannot be read.
std::string preset_text(const PresetInfo& preset);

}  // namespace shardsim
