#include "scenarios/presets.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

#include "sim/kernel/build_tree.hpp"

#include "scenarios/json_value.hpp"
#include "scenarios/load.hpp"
#include "scenarios/read_file.hpp"
#include "scenarios/suggest.hpp"

namespace shardsim {

namespace {

// A scenario around the preset, so that the usual code resolves and checks it.
Scenario scenario_of_preset(const std::string& name, const std::vector<std::string>& overrides) {
  std::vector<std::string> names;
  for (const PresetInfo& preset : list_builtin_presets()) {
    if (preset.folder == "systems") names.push_back(preset.name);
  }
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    const std::string near = nearest(name, names);
    throw no_such_machine("there is no system \"" + name + "\"",
                          (near.empty() ? "" : "write \"" + near + "\"; ") +
                              "name a scenario's file, or " + one_of_list(names));
  }
  const std::string text = R"({"schema_version": 1, "name": "collective",
    "model": {"family": "mlp", "num_layers": 1, "hidden_size": 8, "ffn_hidden_size": 8,
              "vocab_size": 8},
    "system": {"nodes": 1, "preset": ")" +
                           name + R"("},
    "training": {"global_batch_size": 1024, "micro_batch_size": 1}})";
  return load_scenario_text(text, "collective", overrides);
}

}  // namespace

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
  return read_regular_file(preset.path, JsonLimits{}.max_bytes);
}

UsageError no_such_machine(const std::string& message, const std::string& fix) {
  return UsageError("E1087", message, fix);
}

bool names_a_file(const std::string& system) {
  return system.find('/') != std::string::npos || system.find(".json") != std::string::npos;
}

Scenario scenario_of_system(const std::string& system, const std::vector<std::string>& overrides) {
  return names_a_file(system) ? load_scenario(system, overrides)
                              : scenario_of_preset(system, overrides);
}

}  // namespace shardsim
