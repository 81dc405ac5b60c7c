#include "scenarios/formats/megatron_graphs.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "strategies/model/graph_modules.hpp"
#include "strategies/model/recompute.hpp"

#include "scenarios/stage_places.hpp"

// Names and defaults: megatron/core/transformer/transformer_config.py and cuda_graph_config.py at
// NVIDIA/Megatron-LM d98e8a64. An older name of cuda_graph_modules is cuda_graph_scope, and
// full_iteration was one of its words.
namespace shardsim {

namespace {

constexpr const char* kWays = "cuda_graph_impl";
constexpr const char* kWhole = "full_iteration";
constexpr NamePair kCaptured = {"cuda_graph_modules", "system.cuda_graphs"};
constexpr NamePair kCapturedBefore = {"cuda_graph_scope", "system.cuda_graphs"};

// The value of cuda_graph_impl, which has two older names.
std::string way_of(MegatronArguments& arguments) {
  const bool is_local = arguments.truth("enable_cuda_graph");
  const bool is_external = arguments.truth("external_cuda_graph");
  // Not asked for where it is none: then it is ignored as all that is as here.
  const bool is_given = arguments.written(kWays) != "none";
  const std::string way = is_given ? arguments.text(kWays).value_or("none") : "none";
  if (way != "none" || (!is_local && !is_external)) return way;
  return is_local ? "local" : "transformer_engine";
}

bool has(const std::vector<std::string>& words, const char* word) {
  return std::ranges::find(words, word) != words.end();
}

bool has_experts(const Import& import) {
  return import.has(megatron::kExperts.ours) && import.integer(megatron::kExperts.ours) > 1;
}

// Experts that no capacity limits: the host counts their tokens.
bool counts_tokens_of_experts(const Import& import) {
  return has_experts(import) && !import.has("model.moe_capacity_factor");
}

// As a log has it, a word is "<CudaGraphModule.attn: 1>".
std::vector<std::string> modules_in(const std::string& list) {
  std::vector<std::string> modules;
  for (const std::string& word : words_of_list(list)) {
    const bool is_wrapping =
        word.starts_with("CudaGraph") || word.find_first_not_of("0123456789") == std::string::npos;
    if (!is_wrapping && !has(modules, word.c_str())) modules.push_back(word);
  }
  return modules;
}

}  // namespace

void import_megatron_graphs(MegatronArguments& arguments, Import& import) {
  const std::string way = way_of(arguments);
  const NamePair& pair = arguments.list(kCaptured.theirs) ? kCaptured : kCapturedBefore;
  const std::string list = arguments.list(pair.theirs).value_or("");
  if (way == "none") return;
  const std::vector<std::string> words = modules_in(list);
  if (way == kWhole || has(words, kWhole)) {
    if (counts_tokens_of_experts(import)) {
      return import.warn({kWays, way},
                         "not modelled: no graph of all is planned where the host counts tokens");
    }
    return import.derive({kWays, way}, kCaptured.ours, std::string(kWhole));
  }
  if (words.empty() || has(words, "full")) {
    if (!arguments.written("hybrid_layer_pattern").empty()) {
      return import.warn({kWays, way},
                         "not modelled: name the modules that hybrid_layer_pattern has");
    }
    const bool routes = has_experts(import);
    return import.derive(
        {kWays, way}, kCaptured.ours, std::string(routes ? "attn,moe_router" : "attn,mlp"),
        routes ? "whole layers, but for experts and dense layers beside them" : "whole layers");
  }
  const std::span<const char* const> names = graph_module_names();
  std::vector<std::string> known;
  std::vector<std::string> others;
  for (const std::string& word : words) {
    (std::ranges::find(names, word) != names.end() ? known : others).push_back(word);
  }
  if (!others.empty()) {
    import.warn({pair.theirs, fmt::format("{}", fmt::join(others, " "))},
                "not modelled: the host launches each kernel of these modules");
  }
  if (known.empty()) return;
  import.derive({pair.theirs, list}, kCaptured.ours, fmt::format("{}", fmt::join(known, ",")));
}

void add_graphs(const Scenario& scenario, Flags& flags) {
  const GraphModules modules = graph_modules_of(scenario.system.cuda_graphs);
  if (modules.empty()) return;
  if (modules.has(GraphModule::full_iteration)) {
    flags.flag(kWays, kWhole);
    return flags.flag("no_check_for_nan_in_loss_and_grad");  // Megatron-LM insists on it.
  }
  std::string names = scenario.system.cuda_graphs;
  std::ranges::replace(names, ',', ' ');
  flags.flag(kWays, "transformer_engine");
  flags.flag(kCaptured, names);
  if (modules.has(GraphModule::mlp) &&
      schedule_row_of(scenario.parallelism.schedule).is_for_experts) {
    flags.note("Megatron-LM refuses mlp among cuda_graph_modules beside this overlap of experts");
  }
  const bool recomputes_experts =
      scenario.training.recompute == Recompute::selective &&
      recompute_modules_of(scenario.training.recompute_modules).has(RecomputeModule::moe);
  if (modules.has(GraphModule::moe_router) && recomputes_experts) {
    flags.note("Megatron-LM refuses moe_router among cuda_graph_modules beside recomputed experts");
  }
}

}  // namespace shardsim
