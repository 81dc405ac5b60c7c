#include "scenarios/formats/import_system.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "scenarios/presets.hpp"
#include "scenarios/suggest.hpp"
#include "scenarios/system_scenario.hpp"

namespace shardsim {

namespace {

constexpr const char* kPrefix = "dgx-";
constexpr const char* kAssumedGpu = "h100";

std::string preset_of_gpu(const std::string& gpu) {
  std::vector<std::string> kinds;
  for (const PresetInfo& preset : list_builtin_presets()) {
    if (preset.folder == "systems" && preset.name.rfind(kPrefix, 0) == 0) {
      kinds.push_back(preset.name.substr(std::string(kPrefix).size()));
    }
  }
  std::string lower = gpu;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  if (std::find(kinds.begin(), kinds.end(), lower) != kinds.end()) return kPrefix + lower;
  throw UsageError("E1351", "there is no GPU \"" + gpu + "\" among the presets",
                   "write " + one_of_list(kinds) + ", or name a machine with --system");
}

std::string import_preset(const ImportRequest& request, Import& import) {
  if (!request.system.empty()) {
    import.take("--system", request.system, "system.preset", request.system);
    return request.system;
  }
  if (!request.gpu.empty()) {
    const std::string preset = preset_of_gpu(request.gpu);
    import.derive("--gpu", request.gpu, "system.preset", preset);
    return preset;
  }
  const std::string preset = preset_of_gpu(kAssumedGpu);
  import.assume("the machine", "system.preset", preset, "say --gpu KIND or --system PRESET");
  return preset;
}

void import_nodes(std::int64_t gpus, std::int64_t per_node, const std::string& preset,
                  Import& import) {
  if (gpus < per_node) {
    import.derive("GPUs", std::to_string(gpus), "system.gpus_per_node", gpus,
                  fmt::format("a part of one node of {}", per_node));
    import.derive("GPUs", std::to_string(gpus), "system.nodes", std::int64_t{1});
    return;
  }
  if (gpus % per_node != 0) {
    throw UsageError("E1351",
                     fmt::format("{} GPUs do not fill nodes of {} ({})", gpus, per_node, preset),
                     fmt::format("use --gpus {} or {}, or another --system", gpus - gpus % per_node,
                                 gpus - gpus % per_node + per_node));
  }
  import.derive("GPUs", std::to_string(gpus), "system.nodes", gpus / per_node);
}

}  // namespace

std::int64_t import_system(const ImportRequest& request, const ForeignGpus& foreign,
                           Import& import) {
  const std::string preset = import_preset(request, import);
  const std::int64_t per_node = scenario_of_system(preset, {}).system.gpus_per_node;
  std::int64_t gpus = request.gpus > 0 ? request.gpus : foreign.count;
  if (request.gpus > 0 && foreign.count > 0 && request.gpus != foreign.count) {
    import.ignore(foreign.name, std::to_string(foreign.count),
                  fmt::format("--gpus {} is given", request.gpus));
  }
  if (gpus == 0) {
    gpus = per_node;
    import.warn("the number of GPUs", "",
                fmt::format("one node of {} assumed: say --gpus N", gpus));
  }
  import_nodes(gpus, per_node, preset, import);
  return gpus;
}

}  // namespace shardsim
