#pragma once

#include <string_view>
#include <vector>

#include "strategies/model/make_model.hpp"

// Heads that differ from layer to layer, values made of keys, and gates of heads.
namespace shardsim::test {

/// Layers with heads of their own, as MiMo-V2 has them, and values that are scaled.
inline ModelOptions with_unlike_heads(ModelOptions options) {
  options.value_head_dim = 3;
  options.value_scale = 0.7;
  options.layers = {{.mask = {AttentionReach::sliding, 2},
                     .rope_theta = 50.0,
                     .has_sinks = true,
                     .heads = {.num_attention_heads = 3 * options.num_query_groups,
                               .head_dim = 6,
                               .value_head_dim = 5,
                               .rotary_dim = 4}},
                    {}};
  return options;
}

/// Layers whose values are their keys: in the first they change apart, in the second they stay one.
inline ModelOptions with_keys_as_values(ModelOptions options) {
  const HeadOptions heads{.head_dim = 4, .rotary_dim = 2, .keys_are_values = true};
  options.layers = {{.heads = heads}, {.has_rotary = false, .heads = heads}};
  return options;
}

/// Layers as Gemma 4 has them: full ones have wider heads, and normed keys as values.
inline ModelOptions with_normed_values(ModelOptions options) {
  options.query_key_norm = QueryKeyNorm::per_head;
  options.value_norm = true;
  options.norm_epsilon = 0.5;  // Heads are of few small elements; else they bend too much.
  options.attention_scale = 1.0;
  options.layers = {{.mask = {AttentionReach::sliding, 2}},
                    {.heads = {.num_query_groups = options.num_attention_heads,
                               .head_dim = 4,
                               .rotary_dim = 2,
                               .keys_are_values = true}}};
  return options;
}

/// Those, by name; else `options`.
inline ModelOptions with_heads_of_layers(const ModelOptions& options, std::string_view name) {
  if (name == "llama of unlike heads") return with_unlike_heads(options);
  if (name == "llama of keys as values") return with_keys_as_values(options);
  if (name == "llama of normed values") return with_normed_values(options);
  const bool gates_heads = name == "llama with gates of heads";
  if (!gates_heads && name != "llama of wide values") return options;
  ModelOptions gated = options;
  gated.attention_head_gate = gates_heads;
  gated.attention_output_gate = !gates_heads;
  gated.value_head_dim = 3;
  return gated;
}
inline const std::vector<const char*> kHeadsOfLayers = {
    "llama of unlike heads", "llama of keys as values", "llama of normed values",
    "llama with gates of heads"};

}  // namespace shardsim::test
