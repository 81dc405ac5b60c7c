#include "scenarios/formats/megatron_offload.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "strategies/model/offload_modules.hpp"
#include "strategies/model/recompute.hpp"

// Activations in host memory, both ways: of whole layers (Transformer Engine's), or of some modules
// of all layers (Megatron-Core's). Names: megatron/training/arguments.py and
// megatron/core/transformer/transformer_config.py at NVIDIA/Megatron-LM d98e8a64.
namespace shardsim {

namespace {

constexpr const char* kByLayers = "cpu_offloading";
constexpr NamePair kNumLayers = {"cpu_offloading_num_layers", "parallelism.offload_layers"};
constexpr const char* kByModules = "fine_grained_activation_offloading";
constexpr NamePair kNames = {"offload_modules", "parallelism.offload_modules"};
constexpr NamePair kLeast = {"min_offloaded_tensor_size", "parallelism.offload_min_elements"};

std::int64_t imported_or_one(const Import& import, const char* path) {
  return import.has(path) ? import.integer(path) : 1;
}

// All layers of a model chunk but the last, which backward needs at once.
std::int64_t all_but_last(const Import& import) {
  if (!import.has(megatron::kLayers.ours)) return 1;
  const std::int64_t stages = imported_or_one(import, megatron::kPipeline.ours) *
                              imported_or_one(import, megatron::kChunks.ours);
  const std::int64_t of_chunk = (import.integer(megatron::kLayers.ours) + stages - 1) / stages;
  return std::max<std::int64_t>(of_chunk - 1, 1);
}

void import_by_modules(MegatronArguments& arguments, Import& import) {
  const std::string list = arguments.list(kNames.theirs).value_or("");
  const std::span<const char* const> names = offload_module_names();
  std::vector<std::string> known;
  std::vector<std::string> others;
  for (const std::string& word : words_of_list(list)) {
    const bool is_known = std::ranges::find(names, word) != names.end() && word != names.front();
    std::vector<std::string>& words = is_known ? known : others;
    if (std::ranges::find(words, word) == words.end()) words.push_back(word);
  }
  if (!others.empty()) {
    import.warn({kNames.theirs, fmt::format("{}", fmt::join(others, " "))},
                "not modelled: inputs of these modules stay on the device");
  }
  if (known.empty()) return;
  const std::int64_t layers = all_but_last(import);
  import.derive({kByModules, "True"}, kNumLayers.ours, layers,
                "all layers of a model chunk but the last, which stays there, too");
  import.derive({kNames.theirs, list}, kNames.ours, fmt::format("{}", fmt::join(known, ",")));
  if (const auto least = arguments.number(kLeast.theirs)) {
    import.derive({kLeast.theirs, fmt::format("{}", *least)}, kLeast.ours,
                  std::max<std::int64_t>(static_cast<std::int64_t>(*least), 1));
  }
}

}  // namespace

void import_megatron_offload(MegatronArguments& arguments, Import& import) {
  if (arguments.truth(kByModules)) import_by_modules(arguments, import);
  // A number of layers switches it on; the other two are fields of a configuration, as a log has
  // them.
  const double layers = arguments.number(kNumLayers.theirs).value_or(0.0);
  const bool is_on = arguments.truth(kByLayers, true);
  const bool goes = arguments.truth("cpu_offloading_activations", true);
  if (!is_on || !goes || layers < 1.0 || import.has(kNumLayers.ours)) return;
  import.take({kNumLayers.theirs, fmt::format("{}", layers)}, kNumLayers.ours,
              static_cast<std::int64_t>(layers));
}

namespace {

// Megatron-LM refuses these beside offloading whole layers (transformer_config.py).
void note_refused_layers(const Scenario& scenario, Flags& flags) {
  const ParallelismSpec& p = scenario.parallelism;
  if (p.pp > 1) flags.note("Megatron-LM refuses offload_layers with pipeline stages");
  if (scenario.training.recompute != Recompute::none) {
    flags.note("Megatron-LM refuses offload_layers with recomputation");
  }
  if (p.offload_layers >= scenario.model.num_layers) {
    flags.note("Megatron-LM wants at least one layer that is not offloaded");
  }
}

// The same of single modules.
void note_refused_modules(const Scenario& scenario, const OffloadModules& modules, Flags& flags) {
  if (modules.has(OffloadModule::attn_proj) && !modules.has(OffloadModule::core_attn)) {
    flags.note("Megatron-LM refuses attn_proj among offload_modules without core_attn");
  }
  const bool has_inner =
      modules.has(OffloadModule::expert_fc1) || modules.has(OffloadModule::moe_act);
  const TrainingSpec& t = scenario.training;
  const bool recomputes_experts =
      t.recompute == Recompute::selective &&
      recompute_modules_of(t.recompute_modules).has(RecomputeModule::moe);
  if (has_inner && recomputes_experts) {
    flags.note(
        "Megatron-LM refuses expert_fc1 and moe_act among offload_modules beside "
        "recomputed experts");
  }
}

}  // namespace

void add_offload(const Scenario& scenario, Flags& flags) {
  const ParallelismSpec& p = scenario.parallelism;
  if (p.offload_optimizer) flags.flag("optimizer_cpu_offload");
  if (p.offload_gradients || p.offload_parameters) {
    flags.lacks("gradients and parameters in host memory (parallelism.offload_gradients)");
  }
  if (!p.offloads_activations()) return;
  const OffloadModules modules = offload_modules_of(p.offload_modules);
  if (modules.has(OffloadModule::everything)) {
    flags.flag(kNumLayers, p.offload_layers);
    return note_refused_layers(scenario, flags);
  }
  std::string names = p.offload_modules;
  std::ranges::replace(names, ',', ' ');
  flags.flag(kByModules);
  flags.flag(kNames, names);
  flags.flag(kLeast, p.offload_min_elements);
  flags.note(
      fmt::format("Megatron-LM offloads these modules in all layers but the last; planned "
                  "were the first {} of a model chunk",
                  p.offload_layers));
  note_refused_modules(scenario, modules, flags);
}

}  // namespace shardsim
