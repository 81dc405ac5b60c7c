#include <algorithm>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "scenarios/load.hpp"
#include "scenarios/presets.hpp"
#include "scenarios/suggest.hpp"
#include "sim/app/collective/collective_setting.hpp"
#include "sim/experiment/experiment.hpp"

namespace shardsim {

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
    throw UsageError("E1087", "there is no system \"" + name + "\"",
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

Cluster cluster_of_ranks(const std::string& system, int ranks, int nodes,
                         const std::vector<std::string>& overrides) {
  Cluster cluster = compile(scenario_of_system(system, overrides)).cluster();
  if (nodes == 0) nodes = (ranks + cluster.gpus_per_node - 1) / cluster.gpus_per_node;
  if (ranks % nodes != 0 || ranks / nodes > cluster.gpus_per_node) {
    throw UsageError("E1087",
                     fmt::format("{} ranks do not lie evenly on {} nodes of {} with {} GPUs each",
                                 ranks, nodes, cluster.name, cluster.gpus_per_node),
                     "change --ranks or --nodes, so that every node has equally many");
  }
  cluster.num_nodes = nodes;
  // Fewer GPUs come with their own network cards only.
  if (cluster.nics_per_node > 0) {
    cluster.nics_per_node =
        std::max(1, cluster.nics_per_node * (ranks / nodes) / cluster.gpus_per_node);
  }
  cluster.gpus_per_node = ranks / nodes;
  return cluster;
}

}  // namespace shardsim
