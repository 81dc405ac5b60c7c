#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "strategies/model/feed_forward_activation.hpp"
#include "strategies/model/make_model.hpp"
#include "strategies/model/model_norm.hpp"

#include "scenarios/formats/emit.hpp"

// Parts of a model that need code of their own: frameworks whose files say a layout alone have no
// setting for them. No model of torchtitan/models at pytorch/torchtitan b5bcd76c66d0 has one, but
// for muse_glimmer, which also norms its embeddings as no model of ours does. torchtitan_models.cpp
// has the other parts, and the models of torchtitan with them.
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
    OwnCode{"layers of Mamba-2 (mixer mamba)",
            [](const ModelSpec& model) {
              return is_in_some_layer(
                  model, [](const LayerSpec& layer) { return layer.mixer == Mixer::mamba; });
            }},
    OwnCode{"layers of one branch (mixer or feed_forward none)",
            [](const ModelSpec& model) {
              return is_in_some_layer(model, [](const LayerSpec& layer) {
                return layer.mixer == Mixer::none || layer.feed_forward == FeedForward::none;
              });
            }},
    OwnCode{"attention in chunks (model.layers[].chunk_size)",
            [](const ModelSpec& model) {
              return is_in_some_layer(model,
                                      [](const LayerSpec& layer) { return layer.chunk_size > 0; });
            }},
    OwnCode{"norms behind branches (norm_placement)",
            [](const ModelSpec& model) { return model.norm_placement != NormPlacement::pre; }},
    OwnCode{"layer norms (norm_kind)",
            [](const ModelSpec& model) {
              return model.family == ModelFamily::llama && model.norm_kind != NormKind::rms;
            }},
    OwnCode{"attention and MLP beside each other (parallel_block)",
            [](const ModelSpec& model) { return model.parallel_block; }},
    OwnCode{"activations without a SwiGLU (activation)",
            [](const ModelSpec& model) {
              return model.family == ModelFamily::llama && model.activation != Activation::swiglu &&
                     model.activation != Activation::clamped_swiglu;
            }},
    OwnCode{"capped scores or logits (attention_logit_cap, final_logit_cap)",
            [](const ModelSpec& model) {
              return model.attention_logit_cap > 0 || model.final_logit_cap > 0;
            }},
    OwnCode{"scaled embeddings, branches or logits (embedding_scale, residual_scale, logit_scale)",
            [](const ModelSpec& model) {
              return model.embedding_scale != 1 || model.residual_scale != 1 ||
                     model.logit_scale != 1;
            }},
    OwnCode{"norms of whole queries and keys, or norms without weights (query_key_norm)",
            [](const ModelSpec& model) {
              return model.query_key_norm == QueryKeyNorm::whole ||
                     model.query_key_norm == QueryKeyNorm::weightless;
            }},
    OwnCode{"queries that grow with their position (query_temperature_scale)",
            [](const ModelSpec& model) { return model.query_temperature_scale > 0; }},
    OwnCode{"weights on what experts read (moe_weight_on_input)",
            [](const ModelSpec& model) { return model.moe_weight_on_input; }},
    OwnCode{"multi-token prediction without latent attention (mtp_num_layers)",
            [](const ModelSpec& model) { return model.mtp_num_layers > 0 && !model.is_latent(); }},
    OwnCode{"values of another size than keys without latent attention (value_head_dim)",
            [](const ModelSpec& model) {
              return model.family == ModelFamily::llama && !model.is_latent() &&
                     model.value_head_dim != model.head_dim;
            }},
    OwnCode{"scores of another scale without latent attention (attention_scale)",
            [](const ModelSpec& model) {
              return model.attention_scale > 0 && !model.is_latent() && !has_sinks(model);
            }},
    OwnCode{"normed values (value_norm)", [](const ModelSpec& model) { return model.value_norm; }},
    OwnCode{"scaled values (value_scale)",
            [](const ModelSpec& model) { return model.value_scale != 1.0; }},
    OwnCode{"scaled MLPs (mlp_gate_scale, mlp_output_scale)",
            [](const ModelSpec& model) {
              return model.layers_with_dense() > 0 &&
                     (model.mlp_gate_scale != 1.0 || model.mlp_output_scale != 1.0);
            }},
    OwnCode{"factors within Mamba-2 (mamba_z_scale and others)",
            [](const ModelSpec& model) {
              return mixes_by_mamba(model) &&
                     (model.mamba.scales_projection() || model.mamba.output_scale != 1.0);
            }},
    OwnCode{"layers without positions (model.layers[].rotary)",
            [](const ModelSpec& model) {
              return is_in_some_layer(model, [](const LayerSpec& layer) {
                return has_mixer(layer.mixer, Mixer::attention) && !layer.rotary;
              });
            }},
    OwnCode{"groups of experts that are scored by their best one (moe_router_group_score)",
            [](const ModelSpec& model) {
              return model.moe_router_num_groups > 1 &&
                     model.moe_router_group_score == GroupScore::maximum;
            }},
    OwnCode{"experts that drop tokens (moe_capacity_factor)",
            [](const ModelSpec& model) { return model.moe_capacity_factor > 0; }},
    OwnCode{"losses of the router (moe_aux_loss_coeff, moe_z_loss_coeff)",
            [](const ModelSpec& model) {
              return model.moe_aux_loss_coeff > 0 || model.moe_z_loss_coeff > 0;
            }},
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

bool has_sinks(const ModelSpec& model) {
  return is_in_some_layer(model, [](const LayerSpec& layer) { return layer.sinks; });
}

bool has_unlike_heads(const ModelSpec& model) {
  return is_in_some_layer(model, has_sizes_of_its_own);
}

}  // namespace shardsim
