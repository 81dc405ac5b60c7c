#include "scenarios/preset_folders.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <system_error>

#include "sim/kernel/text.hpp"
#include "sim/kernel/version.hpp"

#include "scenarios/json_value.hpp"
#include "scenarios/read_file.hpp"

namespace shardsim {

namespace {

std::vector<PresetInfo> models_and_systems(const std::vector<std::string>& directories) {
  std::vector<PresetInfo> presets = list_presets("models", directories);
  const std::vector<PresetInfo> systems = list_presets("systems", directories);
  presets.insert(presets.end(), systems.begin(), systems.end());
  return presets;
}

std::vector<std::string> names_in(const std::string& folder,
                                  const std::vector<std::string>& directories) {
  std::vector<std::string> names;
  for (const PresetInfo& preset : list_presets(folder, directories)) names.push_back(preset.name);
  return names;
}

// Users may stand in that folder.
bool is_builtin_directory(const std::string& directory) {
  return std::ranges::any_of(builtin_preset_directories(), [&](const std::string& builtin) {
    std::error_code error;
    return directory == builtin || std::filesystem::equivalent(directory, builtin, error);
  });
}

}  // namespace

std::vector<std::string> preset_directories_beside(const std::string& executable,
                                                   const std::string& root_from_build) {
  if (executable.empty()) return {};
  namespace fs = std::filesystem;
  const std::optional<std::string> build = build_root_of(executable);
  const fs::path directory = build ? fs::path(*build) / root_from_build / "scenarios"
                                   : fs::path(executable).parent_path() / "../share/shardsim";
  return {directory.lexically_normal().string()};
}

std::vector<std::string> builtin_preset_directories() {
  // Read once per load and before anything runs; it decides where data lies, not what a run does.
  const char* replaced = std::getenv("SHARDSIM_PRESETS");  // NOLINT(concurrency-mt-unsafe)
  if (replaced != nullptr && *replaced != '\0') return {replaced};
  return preset_directories_beside(this_executable(), SHARDSIM_ROOT_FROM_BUILD);
}

std::vector<std::string> preset_directories(const std::string& beside) {
  std::vector<std::string> directories = builtin_preset_directories();
  directories.insert(directories.begin(), beside.empty() ? "." : beside);
  return directories;
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
  std::map<std::string, PresetInfo> by_name;
  for (const std::string& directory : directories) {
    std::error_code error;
    for (fs::directory_iterator it(fs::path(directory) / folder, error), end; !error && it != end;
         it.increment(error)) {
      if (it->path().extension() != ".json") continue;
      const std::string name = it->path().stem().string();
      by_name.try_emplace(name, PresetInfo{.folder = folder,
                                           .name = name,
                                           .path = it->path().lexically_normal().string(),
                                           .is_own = !is_builtin_directory(directory)});
    }
  }
  std::vector<PresetInfo> presets;
  for (const auto& [name, preset] : by_name) presets.push_back(preset);
  return presets;
}

std::vector<PresetInfo> list_builtin_presets() {
  return models_and_systems(builtin_preset_directories());
}

std::vector<PresetInfo> list_presets_of(const std::string& beside) {
  return models_and_systems(preset_directories(beside));
}

std::vector<std::string> builtin_preset_names(const std::string& folder) {
  return names_in(folder, builtin_preset_directories());
}

std::vector<std::string> preset_names(const std::string& folder, const std::string& beside) {
  return names_in(folder, preset_directories(beside));
}

std::optional<std::string> system_of_gpu(const std::string& gpu,
                                         const std::vector<std::string>& systems) {
  std::string kind = gpu;
  std::ranges::transform(kind, kind.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  for (const std::string& name : {gpu, kind, "dgx-" + kind, "hgx-" + kind, kind + "-nvl72"}) {
    if (std::ranges::find(systems, name) != systems.end()) return name;
  }
  return std::nullopt;
}

std::string preset_text(const PresetInfo& preset) {
  return read_regular_file(preset.path, JsonLimits{}.max_bytes);
}

}  // namespace shardsim
