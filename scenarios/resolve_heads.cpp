#include <string>

#include "scenarios/resolve.hpp"

// The part of a head that turns, gates of heads, and layers with other
// heads than the model's.
namespace shardsim {

namespace {

constexpr const char* kListOfLayers = "model.layers";

// A problem at a key of a layer; at the layer, if it does not say it.
void refuse_heads_of(Reading& r, std::size_t layer, const char* key, const std::string& cause,
                     const std::string& fix) {
  FieldState state = r.item(kListOfLayers, layer, key);
  if (!state.given) state = r.item(kListOfLayers, layer, "");
  r.problems.add("E0241", state.span, state.pointer, cause, fix);
}

bool is_said_well(const Reading& r, std::size_t layer) {
  for (const char* key : {"num_attention_heads", "num_query_groups", "head_dim", "value_head_dim",
                          "rotary_dim", "keys_are_values", "mixer"}) {
    if (is_broken_layer(r, layer, key)) return false;
  }
  return true;
}

void check_own_heads(Reading& r, std::size_t layer, const HeadOptions& heads) {
  if (heads.num_attention_heads % heads.num_query_groups != 0) {
    refuse_heads_of(r, layer, "num_query_groups",
                    "the layer's " + text_of(heads.num_query_groups) +
                        " key and value heads must divide its " +
                        text_of(heads.num_attention_heads) + " query heads",
                    "try " + divisors(heads.num_attention_heads, heads.num_attention_heads));
  }
  if (heads.keys_are_values && heads.value_head_dim != heads.head_dim) {
    refuse_heads_of(r, layer, "value_head_dim",
                    "the layer's values are its keys, of " + text_of(heads.head_dim) +
                        " elements, and not of " + text_of(heads.value_head_dim),
                    "leave it out, or keys_are_values");
  }
  if (heads.rotary_dim % 2 != 0 || heads.rotary_dim > heads.head_dim) {
    refuse_heads_of(r, layer, "rotary_dim",
                    "rotary positions turn pairs, and cannot turn " + text_of(heads.rotary_dim) +
                        " of the " + text_of(heads.head_dim) + " elements of the layer's heads",
                    "give an even number, at most head_dim");
  }
}

void check_gates(Reading& r) {
  const ModelSpec& m = r.scenario.model;
  if (!m.attention_output_gate || !m.attention_head_gate) return;
  r.problem("E0201", "model.attention_head_gate",
            "attention has a gate for each element, and one for each head",
            "leave it out, or attention_output_gate");
}

void refuse_split_of(Reading& r, std::size_t layer, std::int64_t heads, const char* what,
                     bool may_copy) {
  const std::int64_t tp = r.scenario.parallelism.tp;
  r.problem("E0203", "parallelism.tp",
            "tp (" + text_of(tp) + ") does not divide the " + text_of(heads) + " " + what +
                " of the layers at model.layers[" + std::to_string(layer) + "]",
            may_copy ? "use a tp that divides them, or a multiple of them"
                     : "use a tp that divides them");
}

}  // namespace

void resolve_rotary_dim(Reading& r) {
  ModelSpec& m = r.scenario.model;
  if (m.is_latent()) return;
  if (!r.good("model.head_dim")) return;
  const bool is_given = r.given("model.rotary_dim");
  const bool is_llama = m.family == ModelFamily::llama;
  derive(r, "model.rotary_dim", m.rotary_dim, is_llama ? m.head_dim : 0);
  if (!r.good("model.rotary_dim")) return;
  if (!is_llama) {
    if (m.rotary_dim == 0) return;
    r.problem("E0201", "model.rotary_dim",
              std::string("family ") + to_string(m.family) + " has no rotary positions",
              "leave it out, or use the llama family");
  } else if (m.rotary_dim % 2 != 0 || m.rotary_dim == 0) {
    const char* const head =
        r.given("model.head_dim") ? "model.head_dim" : "model.num_attention_heads";
    r.problem("E0201", is_given ? "model.rotary_dim" : head,
              "rotary positions turn pairs, and " + text_of(m.rotary_dim) +
                  " elements of a head are no pairs",
              is_given ? "give an even number" : "make head_dim even, or give an even rotary_dim");
  } else if (m.rotary_dim > m.head_dim) {
    r.problem("E0201", "model.rotary_dim",
              "a head has " + text_of(m.head_dim) + " elements, and " + text_of(m.rotary_dim) +
                  " cannot turn",
              "give at most head_dim");
  }
}

void resolve_layer_heads(Reading& r) {
  const ModelSpec& m = r.scenario.model;
  check_gates(r);
  if (m.is_latent() ||
      !r.all_good({"model.num_attention_heads", "model.num_query_groups", "model.head_dim",
                   "model.value_head_dim", "model.rotary_dim", "model.kv_lora_rank"})) {
    return;
  }
  for (std::size_t i = 0; i < m.layers.size(); ++i) {
    const LayerSpec& layer = m.layers[i];
    const bool is_attention = has_mixer(layer.mixer, Mixer::attention);
    if (layer.heads == HeadOptions{} || !is_attention || !is_said_well(r, i)) continue;
    check_own_heads(r, i, m.heads_of(layer));
  }
}

void resolve_layer_heads_layout(Reading& r) {
  const ModelSpec& m = r.scenario.model;
  if (m.is_latent() ||
      !r.all_good({"parallelism.tp", "model.num_attention_heads", "model.num_query_groups"})) {
    return;
  }
  for (std::size_t i = 0; i < m.layers.size(); ++i) {
    if (m.layers[i].heads == HeadOptions{} || !is_said_well(r, i)) continue;
    const HeadOptions heads = m.heads_of(m.layers[i]);
    const std::int64_t tp = r.scenario.parallelism.tp;
    if (heads.num_attention_heads % tp != 0) {
      refuse_split_of(r, i, heads.num_attention_heads, "attention heads", false);
    } else if (!m.divides_groups(tp, heads.num_query_groups)) {
      refuse_split_of(r, i, heads.num_query_groups, "key and value heads",
                      m.family == ModelFamily::llama);
    }
  }
}

}  // namespace shardsim
