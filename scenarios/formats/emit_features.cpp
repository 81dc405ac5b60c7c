#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "scenarios/formats/emit.hpp"

// Parts of a model that need code of their own: frameworks whose files say a layout alone have no
// setting for them.
namespace shardsim {

namespace {

bool is_in_some_layer(const ModelSpec& model, bool (*is_so)(const LayerSpec&)) {
  return std::any_of(model.layers.begin(), model.layers.end(), is_so);
}

bool has_sizes_of_its_own(const LayerSpec& layer) {
  HeadOptions sizes = layer.heads;
  sizes.keys_are_values = false;
  return sizes != HeadOptions{};
}

struct OwnCode {
  const char* words;
  bool (*is_there)(const ModelSpec& model);
};

constexpr std::array kOwnCode = {
    OwnCode{"experts on latents (moe_latent_size)",
            [](const ModelSpec& model) { return model.moe_latent_size > 0; }},
    OwnCode{"gates of whole heads (attention_head_gate)",
            [](const ModelSpec& model) { return model.attention_head_gate; }},
    OwnCode{"heads of a layer's own (model.layers[].num_attention_heads, head_dim and others)",
            [](const ModelSpec& model) { return is_in_some_layer(model, has_sizes_of_its_own); }},
    OwnCode{"keys that are values (model.layers[].keys_are_values)",
            [](const ModelSpec& model) {
              return is_in_some_layer(
                  model, [](const LayerSpec& layer) { return layer.heads.keys_are_values; });
            }},
    OwnCode{"attention beside Mamba-2 in a layer (mixer attention_mamba)",
            [](const ModelSpec& model) {
              return is_in_some_layer(model, [](const LayerSpec& layer) {
                return layer.mixer == Mixer::attention_mamba;
              });
            }},
    OwnCode{"normed values (value_norm)", [](const ModelSpec& model) { return model.value_norm; }},
    OwnCode{"scaled values (value_scale)",
            [](const ModelSpec& model) { return model.value_scale != 1.0; }},
};

}  // namespace

std::vector<std::string> parts_with_own_code(const ModelSpec& model) {
  std::vector<std::string> parts;
  for (const OwnCode& each : kOwnCode) {
    if (each.is_there(model)) parts.emplace_back(each.words);
  }
  return parts;
}

bool mixes_by_mamba(const ModelSpec& model) {
  return is_in_some_layer(
      model, [](const LayerSpec& layer) { return has_mixer(layer.mixer, Mixer::mamba); });
}

bool has_unlike_heads(const ModelSpec& model) {
  return is_in_some_layer(model, has_sizes_of_its_own);
}

}  // namespace shardsim
