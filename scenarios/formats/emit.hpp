#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "scenarios/scenario.hpp"

// A layout in the terms of training frameworks. Comments give the settings that a framework cannot
// express, and its defaults that apply.
namespace shardsim {

struct Emission {
  std::string text;                 ///< Flags or a configuration file, with notes.
  std::vector<std::string> unsaid;  ///< Parts that would make another model or fail: sentences.
};

/// "megatron", "torchtitan", "deepspeed".
[[nodiscard]] const std::vector<std::string>& emitted_frameworks();

/// Throws UsageError E1327 for any other name.
void require_framework(std::string_view name);

/// REQUIRES: require_framework(framework).
[[nodiscard]] Emission emit_for(std::string_view framework, const Scenario& scenario);
/// The text. Throws UsageError E1328, which names each unsaid part, unless `approximate`.
[[nodiscard]] const std::string& require_said(const Emission& emission, std::string_view framework,
                                              bool approximate);

/// The key and value heads of layers that have fewer than tensor-parallel ranks, which have copies
/// of them: "4", or "4 in some layers". Empty: there are none.
[[nodiscard]] std::string copied_heads(const Scenario& scenario);

/// Parts of a model that a framework's own models do not have, with their fields.
[[nodiscard]] std::vector<std::string> parts_with_own_code(const ModelSpec& model);
/// Parts that some of today's models have, and frameworks' models with them.
[[nodiscard]] std::vector<std::string> parts_of_today(const ModelSpec& model);
/// Sentences: parts of the model that torchtitan's models do not have, or not together, and splits
/// that torchtitan refuses for it.
[[nodiscard]] std::vector<std::string> unlike_torchtitan(const Scenario& scenario);
/// Products, optimizer state and activations of a type of their own, activations in host memory,
/// and CUDA graphs: what layouts for torchtitan and DeepSpeed do not say, with the fields.
[[nodiscard]] std::vector<std::string> unsaid_memory(const Scenario& scenario);
/// Whether some layer has Mamba-2, alone or beside attention.
[[nodiscard]] bool mixes_by_mamba(const ModelSpec& model);
/// Whether some layer has attention sinks.
[[nodiscard]] bool has_sinks(const ModelSpec& model);
/// Whether some layer has heads of other numbers or sizes than the model's.
[[nodiscard]] bool has_unlike_heads(const ModelSpec& model);

[[nodiscard]] Emission emit_megatron(const Scenario& scenario);
[[nodiscard]] Emission emit_torchtitan(const Scenario& scenario);
[[nodiscard]] Emission emit_deepspeed(const Scenario& scenario);

}  // namespace shardsim
