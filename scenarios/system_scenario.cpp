#include "scenarios/system_scenario.hpp"

#include <algorithm>

#include "scenarios/load.hpp"
#include "scenarios/presets.hpp"
#include "scenarios/suggest.hpp"

namespace shardsim {

UsageError no_such_machine(const std::string& message, const std::string& fix) {
  return UsageError("E1087", message, fix);
}

bool names_a_file(const std::string& system) {
  return system.find('/') != std::string::npos || system.find(".json") != std::string::npos;
}

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

Scenario scenario_of_system(const std::string& system, const std::vector<std::string>& overrides) {
  return names_a_file(system) ? load_scenario(system, overrides)
                              : scenario_of_preset(system, overrides);
}

}  // namespace shardsim
