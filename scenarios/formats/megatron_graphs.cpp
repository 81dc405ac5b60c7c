#include "scenarios/formats/megatron_graphs.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "strategies/model/graph_modules.hpp"

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
  const std::string way = arguments.text(kWays).value_or("none");
  if (way != "none" || (!is_local && !is_external)) return way;
  return is_local ? "local" : "transformer_engine";
}

bool has(const std::vector<std::string>& words, const char* word) {
  return std::ranges::find(words, word) != words.end();
}

bool has_experts(const Import& import) {
  return import.has(megatron::kExperts.ours) && import.integer(megatron::kExperts.ours) > 1;
}

}  // namespace

void import_megatron_graphs(MegatronArguments& arguments, Import& import) {
  const std::string way = way_of(arguments);
  const NamePair& pair = arguments.list(kCaptured.theirs) ? kCaptured : kCapturedBefore;
  const std::string list = arguments.list(pair.theirs).value_or("");
  if (way == "none") return;
  const std::vector<std::string> words = words_of_list(list);
  if (way == kWhole || has(words, kWhole)) {
    return import.derive({kWays, way}, kCaptured.ours, std::string(kWhole));
  }
  if (words.empty() || has(words, "full")) {
    const bool routes = has_experts(import);
    return import.derive({kWays, way}, kCaptured.ours,
                         std::string(routes ? "attn,moe_router" : "attn,mlp"),
                         routes ? "whole layers, but for experts, whose tokens the host counts, "
                                  "and dense layers beside them"
                                : "whole layers");
  }
  const std::span<const char* const> names = graph_module_names();
  std::vector<std::string> known;
  std::vector<std::string> others;
  for (const std::string& word : words) {
    const bool is_known = std::ranges::find(names, word) != names.end();
    std::vector<std::string>& kind = is_known ? known : others;
    if (!has(kind, word.c_str())) kind.push_back(word);
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
  if (modules.has(GraphModule::full_iteration)) return flags.flag(kWays, kWhole);
  std::string names = scenario.system.cuda_graphs;
  std::ranges::replace(names, ',', ' ');
  flags.flag(kWays, "transformer_engine");
  flags.flag(kCaptured, names);
}

}  // namespace shardsim
