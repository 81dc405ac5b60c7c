#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "strategies/model/make_model.hpp"

#include "scenarios/resolve.hpp"

// Latent attention: sizes that it needs, and what it cannot be with.
namespace shardsim {

namespace {

// Heads of queries and keys have two parts, and what turns is the second.
void resolve_sizes(Reading& r) {
  ModelSpec& m = r.scenario.model;
  for (const char* path :
       {"model.qk_nope_head_dim", "model.qk_rope_head_dim", "model.value_head_dim"}) {
    if (r.given(path) || r.broken.count("model") != 0) continue;
    r.problem("E0103", path, "\"" + last_key(path) + "\" is missing in \"model\"",
              "attention with kv_lora_rank needs it");
  }
  if (!r.all_good({"model.qk_nope_head_dim", "model.qk_rope_head_dim"})) {
    r.fields["model.head_dim"].good = false;
    return;
  }
  if (m.qk_rope_head_dim % 2 != 0) {
    r.problem("E0243", "model.qk_rope_head_dim",
              "rotary positions turn pairs, and " + text_of(m.qk_rope_head_dim) +
                  " elements of a head are no pairs",
              "give an even number");
  }
  derive(r, "model.head_dim", m.head_dim, m.qk_nope_head_dim + m.qk_rope_head_dim);
  derive(r, "model.rotary_dim", m.rotary_dim, m.qk_rope_head_dim);
}

void refuse_beside(Reading& r) {
  const ModelSpec& m = r.scenario.model;
  struct Beside {
    const char* path;
    bool is_there;
    const char* what;
  };
  const bool has_fewer_keys = r.all_good({"model.num_query_groups", "model.num_attention_heads"}) &&
                              r.given("model.num_query_groups") &&
                              m.num_query_groups != m.num_attention_heads;
  for (const Beside& beside :
       {Beside{"model.head_dim", r.given("model.head_dim"),
               "heads of qk_nope_head_dim + qk_rope_head_dim elements"},
        Beside{"model.rotary_dim", r.given("model.rotary_dim"),
               "qk_rope_head_dim elements that turn"},
        Beside{"model.num_query_groups", has_fewer_keys, "one key and value head per query head"},
        Beside{"model.query_key_norm", m.query_key_norm != QueryKeyNorm::none,
               "norms of its latents alone"},
        Beside{"model.query_key_value_bias", m.query_key_value_bias, "no biases"},
        Beside{"model.attention_out_bias", m.attention_out_bias, "no biases"},
        Beside{"model.attention_output_gate", m.attention_output_gate, "no gate"},
        Beside{"model.attention_head_gate", m.attention_head_gate, "no gate"},
        Beside{"model.value_norm", m.value_norm, "norms of its latents alone"},
        Beside{"model.value_scale", m.value_scale != 1.0, "values that are not scaled"}}) {
    if (!beside.is_there) continue;
    r.problem("E0243", beside.path,
              std::string("latent attention (kv_lora_rank ") + text_of(m.kv_lora_rank) + ") has " +
                  beside.what,
              "leave it out, or kv_lora_rank");
  }
}

struct LayerBeside {
  const char* key;
  bool (*is_there)(const LayerSpec& layer);
  const char* words;
};

constexpr std::array kLayersBeside = {
    LayerBeside{"sinks", [](const LayerSpec& layer) { return layer.sinks; },
                "latent attention has no sinks"},
    LayerBeside{"mixer",
                [](const LayerSpec& layer) { return layer.mixer == Mixer::attention_mamba; },
                "latent attention is not beside Mamba-2 in a layer"},
    LayerBeside{"", [](const LayerSpec& layer) { return layer.heads != HeadOptions{}; },
                "latent attention has the same heads in all layers"},
};

// The first that a layer has.
void refuse_in_layers(Reading& r) {
  const std::vector<LayerSpec>& layers = r.scenario.model.layers;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto* const found =
        std::find_if(kLayersBeside.begin(), kLayersBeside.end(),
                     [&](const LayerBeside& each) { return each.is_there(layers[i]); });
    if (found == kLayersBeside.end()) continue;
    const FieldState state = r.item("model.layers", i, found->key);
    r.problems.add("E0243", state.span, state.pointer, found->words,
                   "leave them out, or kv_lora_rank");
  }
}

}  // namespace

void resolve_latent_attention(Reading& r) {
  const ModelSpec& m = r.scenario.model;
  if (!r.good("model.kv_lora_rank") || m.kv_lora_rank == 0) return;
  if (m.family != ModelFamily::llama) {
    r.problem("E0243", "model.kv_lora_rank",
              std::string("family ") + to_string(m.family) + " has no latent attention",
              "leave it out, or use the llama family");
    return;
  }
  resolve_sizes(r);
  refuse_beside(r);
  refuse_in_layers(r);
}

}  // namespace shardsim
