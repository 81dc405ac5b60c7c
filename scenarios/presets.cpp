#include "scenarios/presets.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

#include "sim/kernel/build_tree.hpp"

#include "scenarios/json_value.hpp"
#include "scenarios/read_file.hpp"
#include "scenarios/scenario_error.hpp"

namespace shardsim {

std::vector<std::string> preset_directories_beside(const std::string& executable,
                                                   const std::string& root_from_build) {
  if (executable.empty()) {
    return {};
  }
  namespace fs = std::filesystem;
  const std::optional<std::string> build = build_root_of(executable);
  const fs::path directory = build ? fs::path(*build) / root_from_build / "scenarios"
                                   : fs::path(executable).parent_path() / "../share/shardsim";
  return {directory.lexically_normal().string()};
}

std::vector<std::string> builtin_preset_directories() {
  // Read once per load and before anything runs; it decides where data lies, not what a run does.
  const char* replaced = std::getenv("SHARDSIM_PRESETS");  // NOLINT(concurrency-mt-unsafe)
  if (replaced != nullptr && *replaced != '\0') {
    return {replaced};
  }
  return preset_directories_beside(this_executable(), SHARDSIM_ROOT_FROM_BUILD);
}

std::string no_presets_help(const std::vector<std::string>& directories) {
  std::string list;
  for (const std::string& directory : directories) {
    list += (list.empty() ? "\"" : ", \"") + printable(directory, 200) + "\"";
  }
  return "no presets were found in " + list +
         "; SHARDSIM_PRESETS can name the folder that holds models/ and systems/";
}

std::vector<PresetInfo> list_presets(const std::string& folder,
                                     const std::vector<std::string>& directories) {
  namespace fs = std::filesystem;
  std::vector<PresetInfo> presets;
  for (const std::string& directory : directories) {
    std::error_code error;
    std::vector<PresetInfo> here;
    for (fs::directory_iterator it(fs::path(directory) / folder, error), end; !error && it != end;
         it.increment(error)) {
      if (it->path().extension() == ".json") {
        here.push_back({folder, it->path().stem().string(), it->path().string()});
      }
    }
    for (PresetInfo& preset : here) {
      const bool known = std::any_of(presets.begin(), presets.end(), [&](const PresetInfo& other) {
        return other.name == preset.name;
      });
      if (!known) {
        presets.push_back(std::move(preset));
      }
    }
  }
  std::sort(presets.begin(), presets.end(),
            [](const PresetInfo& a, const PresetInfo& b) { return a.name < b.name; });
  return presets;
}

std::vector<PresetInfo> list_builtin_presets() {
  const std::vector<std::string> directories = builtin_preset_directories();
  std::vector<PresetInfo> presets = list_presets("models", directories);
  const std::vector<PresetInfo> systems = list_presets("systems", directories);
  presets.insert(presets.end(), systems.begin(), systems.end());
  return presets;
}

std::string preset_text(const PresetInfo& preset) {
  ProblemList problems;
  std::optional<std::string> text =
      read_regular_file(preset.path, JsonLimits{}.max_bytes, problems);
  if (!text.has_value()) {
    throw ScenarioError(problems.problems(), problems.num_dropped());
  }
  return *text;
}

}  // namespace shardsim
