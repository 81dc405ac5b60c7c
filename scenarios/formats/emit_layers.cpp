#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "strategies/model/layer_options.hpp"

#include "scenarios/formats/emit_flags.hpp"
#include "scenarios/formats/layer_pattern.hpp"
#include "scenarios/formats/megatron_model.hpp"

// The layers of a llama in the flags of Megatron-LM. Layers of one branch, and those of Mamba-2,
// are letters of a pattern; gated DeltaNet beside attention is a variant with a frequency.
namespace shardsim {

namespace {

using Layers = std::vector<LayerSpec>;

bool attends(const LayerSpec& layer) { return has_mixer(layer.mixer, Mixer::attention); }

bool are_some(const Layers& layers, bool (*is_so)(const LayerSpec&)) {
  return std::any_of(layers.begin(), layers.end(), is_so);
}

// A pattern's layers: each branch is one.
Layers branches_of(const Layers& layers) {
  Layers branches;
  for (const LayerSpec& layer : layers) {
    if (layer.mixer == Mixer::attention_mamba) {
      branches.push_back({.mixer = Mixer::mamba, .feed_forward = FeedForward::none});
    }
    if (layer.mixer != Mixer::none) {
      branches.push_back(layer);
      branches.back().feed_forward = FeedForward::none;
      if (attends(layer)) branches.back().mixer = Mixer::attention;
    }
    if (layer.feed_forward == FeedForward::none) continue;
    branches.push_back({.mixer = Mixer::none, .feed_forward = layer.feed_forward});
  }
  return branches;
}

char letter_of(const ModelSpec& model, const LayerSpec& branch) {
  switch (branch.mixer) {
    case Mixer::attention:
      return model.is_latent() ? '+' : '*';
    case Mixer::delta_net:
      return 'G';
    case Mixer::mamba:
      return 'M';
    case Mixer::none:
    case Mixer::attention_mamba:  // These are two branches.
      break;
  }
  return branch.feed_forward == FeedForward::experts ? 'E' : '-';
}

std::string letters_of(const ModelSpec& model, const Layers& layers) {
  std::string letters;
  for (const LayerSpec& branch : branches_of(layers)) letters += letter_of(model, branch);
  return letters;
}

// With bars between pipeline stages, and the letters of each depth of multi-token prediction.
std::string pattern_of(const Scenario& scenario, const Layers& layers) {
  const ModelSpec& model = scenario.model;
  std::vector<std::string> stages;
  auto first = layers.begin();
  for (const std::int64_t count : scenario.parallelism.stage_layers) {
    stages.push_back(letters_of(model, Layers(first, first + count)));
    first += count;
  }
  std::string pattern = fmt::format("{}", fmt::join(stages, "|"));
  for (std::int64_t depth = 0; depth < model.mtp_num_layers; ++depth) {
    pattern += "/" + letters_of(model, {layers.back()});
  }
  return pattern;
}

// A pattern may begin with "-", so it stands behind "=".
void add_pattern(const Scenario& scenario, const Layers& layers, Flags& flags) {
  flags.flag(fmt::format("hybrid-layer-pattern='{}'", pattern_of(scenario, layers)));
  flags.flag("spec", "megatron.core.models.hybrid.hybrid_layer_specs hybrid_stack_spec");
  const std::size_t written = branches_of(layers).size();
  if (written == layers.size()) return;
  flags.note(fmt::format(
      "a pattern of Megatron-LM has a layer for each branch: {} layers are written as {}",
      layers.size(), written));
}

std::string list_of(const Layers& layers, bool (*is_so)(const LayerSpec&)) {
  std::vector<int> list;
  for (const LayerSpec& layer : layers) list.push_back(is_so(layer) ? 1 : 0);
  return fmt::format("'[{}]'", fmt::join(list, ","));
}

std::string runs_of(const Layers& layers, bool (*is_so)(const LayerSpec&)) {
  std::vector<bool> list;
  for (const LayerSpec& layer : layers) list.push_back(is_so(layer));
  return "'" + frequency_of(list) + "'";
}

// Megatron-LM's own convolution reads four positions, and its scan has chunks of 128: MambaMixer
// has them as defaults that no flag changes.
void add_mamba(const MambaOptions& mamba, Flags& flags) {
  for (const auto& size : megatron::kMambaSizes) flags.flag(size.names, mamba.*size.member);
  const MambaOptions usual;
  if (mamba.conv_kernel != usual.conv_kernel) {
    flags.lacks(fmt::format("Megatron-LM's Mamba-2 reads {} positions (mamba_conv_kernel {})",
                            usual.conv_kernel, mamba.conv_kernel));
  }
  if (!mamba.has_norm) flags.lacks("Megatron-LM's Mamba-2 has a norm (mamba_norm)");
  if (mamba.scales_projection() || mamba.output_scale != 1.0) {
    flags.lacks("Megatron-LM's Mamba-2 has no such factors (mamba_z_scale and others)");
  }
  if (mamba.chunk_size != usual.chunk_size) {
    flags.note(fmt::format("Megatron-LM's Mamba-2 has chunks of {} (mamba_chunk_size {})",
                           usual.chunk_size, mamba.chunk_size));
  }
}

void add_mixers(const ModelSpec& model, const Layers& layers, bool is_lettered, Flags& flags) {
  const auto is_delta_net = [](const LayerSpec& layer) { return layer.mixer == Mixer::delta_net; };
  if (are_some(layers, is_delta_net)) {
    if (!is_lettered) {
      flags.flag(megatron::kVariant, megatron::kDeltaNet);
      flags.flag(megatron::kLinearFrequency, runs_of(layers, is_delta_net));
    }
    for (const auto& size : megatron::kDeltaNetSizes) {
      flags.flag(size.names, model.delta_net.*size.member);
    }
  }
  const auto is_mamba = [](const LayerSpec& layer) { return has_mixer(layer.mixer, Mixer::mamba); };
  if (are_some(layers, is_mamba)) add_mamba(model.mamba, flags);
}

void add_windows(const Layers& layers, Flags& flags) {
  std::set<std::int64_t> windows;
  for (const LayerSpec& layer : layers) {
    if (attends(layer)) windows.insert(layer.window_size);
  }
  const bool some_see_all = windows.erase(0) > 0;
  if (windows.empty()) return;
  if (windows.size() > 1) {
    flags.lacks("Megatron-LM has one window for all layers (model.layers[].window_size)");
    return;
  }
  flags.flag(megatron::kWindow, fmt::format("'({},0)'", *windows.begin() - 1));
  if (!some_see_all) return;
  flags.flag(megatron::kWindowFrequency,
             list_of(layers, [](const LayerSpec& layer) { return layer.window_size > 0; }));
}

void add_positions(const ModelSpec& model, const Layers& layers, Flags& flags) {
  const auto is_unturned = [](const LayerSpec& layer) { return attends(layer) && !layer.rotary; };
  if (!are_some(layers, is_unturned)) return;
  if (model.is_latent()) {
    flags.lacks("Megatron-LM turns keys of latent attention in all layers (model.layers[].rotary)");
  } else if (turns_in_some_layer(model)) {
    flags.flag(megatron::kNoRotaryFrequency, list_of(layers, is_unturned));
  }
}

void add_sinks(const Layers& layers, Flags& flags) {
  const auto has_sinks = [](const LayerSpec& layer) { return layer.sinks; };
  const auto has_none = [](const LayerSpec& layer) { return attends(layer) && !layer.sinks; };
  if (!are_some(layers, has_sinks)) return;
  if (are_some(layers, has_none)) {
    flags.lacks("Megatron-LM has sinks in all layers or none (model.layers[].sinks)");
  } else {
    flags.flag(megatron::kSoftmax, "learnable");
  }
}

}  // namespace

bool is_lettered(const ModelSpec& model) {
  return std::any_of(model.layers.begin(), model.layers.end(), [](const LayerSpec& layer) {
    return has_mixer(layer.mixer, Mixer::mamba) || layer.mixer == Mixer::none ||
           layer.feed_forward == FeedForward::none;
  });
}

bool turns_in_some_layer(const ModelSpec& model) {
  if (model.layers.empty() || model.is_latent()) return true;
  return std::any_of(model.layers.begin(), model.layers.end(),
                     [](const LayerSpec& layer) { return attends(layer) && layer.rotary; });
}

void add_layers(const Scenario& scenario, Flags& flags) {
  const ModelSpec& model = scenario.model;
  if (model.family != ModelFamily::llama) return;
  const bool lettered = is_lettered(model);
  const Layers layers = model.each_layer();
  if (lettered) {
    add_pattern(scenario, layers, flags);
  } else if (model.num_experts > 0 && model.layers_with_dense() > 0) {
    flags.flag(megatron::kExpertFrequency, runs_of(layers, [](const LayerSpec& layer) {
                 return layer.feed_forward == FeedForward::experts;
               }));
  }
  add_mixers(model, layers, lettered, flags);
  const Layers written = lettered ? branches_of(layers) : layers;
  add_windows(written, flags);
  add_positions(model, written, flags);
  add_sinks(written, flags);
  if (are_some(layers, [](const LayerSpec& layer) { return layer.chunk_size > 0; })) {
    flags.lacks("Megatron-LM has no chunked attention (model.layers[].chunk_size)");
  }
  if (are_some(layers, [](const LayerSpec& layer) { return layer.heads != HeadOptions{}; })) {
    flags.lacks(
        "Megatron-LM has the same heads in all layers (model.layers[].head_dim and others)");
  }
  const auto has_both = [](const LayerSpec& layer) {
    return layer.mixer == Mixer::attention_mamba;
  };
  if (are_some(layers, has_both)) {
    flags.lacks(
        "Megatron-LM has no attention beside Mamba-2 in a layer (mixer attention_mamba): its "
        "pattern "
        "has one behind the other, which is another model");
  }
  if (are_some(layers, [](const LayerSpec& layer) { return layer.rope_theta > 0; })) {
    flags.lacks("Megatron-LM has one rotary base for all layers (model.layers[].rope_theta)");
  }
}

}  // namespace shardsim
