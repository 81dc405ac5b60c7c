#include <array>
#include <string>

#include "strategies/model/attention_mask.hpp"
#include "strategies/model/layer_options.hpp"

#include "scenarios/linear_spec.hpp"
#include "scenarios/resolve.hpp"

// Layers without attention, of gated DeltaNet, of Mamba-2 or of a feed-forward alone.
namespace shardsim {

namespace {

constexpr const char* kLayerList = "model.layers";

// A layer has a branch, and what is said of attention is of a layer with attention.
void check_mixer(Reading& r, std::size_t index, const LayerSpec& layer) {
  if (has_mixer(layer.mixer, Mixer::attention) || is_broken_layer(r, index, "mixer")) return;
  const FieldState mixer = r.item(kLayerList, index, "mixer");
  if (layer.mixer == Mixer::none && layer.feed_forward == FeedForward::none) {
    r.problems.add("E0241", mixer.span, mixer.pointer,
                   "the layer has neither a mixer nor a feed-forward",
                   "leave the layer out, or give it one of them");
  }
  struct Said {
    const char* key;
    bool is_said;
  };
  for (const Said& each :
       {Said{"attention", layer.attention != AttentionReach::causal}, Said{"rotary", !layer.rotary},
        Said{"rope_theta", layer.rope_theta > 0}, Said{"sinks", layer.sinks},
        Said{"num_attention_heads", layer.heads.num_attention_heads > 0},
        Said{"num_query_groups", layer.heads.num_query_groups > 0},
        Said{"head_dim", layer.heads.head_dim > 0},
        Said{"value_head_dim", layer.heads.value_head_dim > 0},
        Said{"rotary_dim", layer.heads.rotary_dim > 0},
        Said{"keys_are_values", layer.heads.keys_are_values}}) {
    if (!each.is_said || is_broken_layer(r, index, each.key)) continue;
    const FieldState state = r.item(kLayerList, index, each.key);
    r.problems.add(
        "E0241", state.span, state.pointer,
        std::string("the layer has no attention, its mixer is ") + to_string(layer.mixer),
        std::string("leave ") + each.key + " out, or choose mixer attention");
  }
}

struct MixerField {
  const char* path;
  std::int64_t value;
};

// Sizes that layers of the mixer need, and of which the first divides the second.
void check_linear_sizes(Reading& r, Mixer mixer, std::initializer_list<MixerField> needed,
                        const MixerField& heads, const MixerField& divisor) {
  for (const MixerField& each : needed) {
    if (!r.good(each.path) || each.value > 0) continue;
    r.problem("E0201", each.path,
              std::string("a layer has mixer ") + to_string(mixer) + ", but \"" +
                  last_key(each.path) + "\" is not given",
              "give it, 1 or more");
  }
  if (!r.all_good({heads.path, divisor.path}) || heads.value < 1 || divisor.value < 1) return;
  if (heads.value % divisor.value == 0) return;
  r.problem("E0201", divisor.path,
            last_key(divisor.path) + " (" + text_of(divisor.value) + ") must divide " +
                last_key(heads.path) + " (" + text_of(heads.value) + ")",
            "try " + divisors(heads.value, heads.value));
}

void refuse_degree(Reading& r, const char* degree, const std::string& what) {
  r.problem("E0203", degree,
            std::string(last_key(degree)) + " (" +
                text_of(degree == std::string("parallelism.tp") ? r.scenario.parallelism.tp
                                                                : r.scenario.parallelism.cp) +
                ") does not divide the " + what,
            "use degrees of tp and cp whose product divides heads");
}

// Tensor-parallel ranks have some heads each; those that share a sample's positions exchange them
// for heads.
void check_heads(Reading& r, const MixerField& heads, const char* what) {
  const ParallelismSpec& p = r.scenario.parallelism;
  if (!r.good(heads.path) || heads.value < 1) return;
  if (heads.value % p.tp != 0) {
    refuse_degree(r, "parallelism.tp", "model's " + text_of(heads.value) + " " + what);
  } else if (heads.value / p.tp % p.cp != 0) {
    refuse_degree(r, "parallelism.cp",
                  text_of(heads.value / p.tp) + " " + what + " of a tensor-parallel rank");
  }
}

}  // namespace

void resolve_linear(Reading& r) {
  const ModelSpec& m = r.scenario.model;
  bool has_delta_net = false;
  bool has_mamba = false;
  for (std::size_t i = 0; i < m.layers.size(); ++i) {
    check_mixer(r, i, m.layers[i]);
    has_delta_net = has_delta_net || m.layers[i].mixer == Mixer::delta_net;
    has_mamba = has_mamba || has_mixer(m.layers[i].mixer, Mixer::mamba);
  }
  if (has_delta_net) {
    const MixerField keys{"model.linear_num_key_heads", m.delta_net.key_heads};
    const MixerField values{"model.linear_num_value_heads", m.delta_net.value_heads};
    check_linear_sizes(r, Mixer::delta_net,
                       {keys,
                        values,
                        {"model.linear_key_head_dim", m.delta_net.key_size},
                        {"model.linear_value_head_dim", m.delta_net.value_size}},
                       values, keys);
  }
  if (has_mamba) {
    const MixerField heads{"model.mamba_num_heads", m.mamba.num_heads};
    check_linear_sizes(r, Mixer::mamba,
                       {heads,
                        {"model.mamba_head_dim", m.mamba.head_size},
                        {"model.mamba_state_size", m.mamba.state_size}},
                       heads, {"model.mamba_num_groups", m.mamba.num_groups});
  }
}

void resolve_linear_layout(Reading& r) {
  const ModelSpec& m = r.scenario.model;
  const ParallelismSpec& p = r.scenario.parallelism;
  if (!r.all_good({"parallelism.tp", "parallelism.cp", "model.family", "model.num_layers"}) ||
      m.layers.empty()) {
    return;
  }
  if (m.layers_mixed_by(Mixer::delta_net) > 0) {
    check_heads(r, {"model.linear_num_key_heads", m.delta_net.key_heads},
                "key heads of gated DeltaNet");
    check_heads(r, {"model.linear_num_value_heads", m.delta_net.value_heads},
                "value heads of gated DeltaNet");
  }
  if (m.layers_mixed_by(Mixer::mamba) == 0) return;
  check_heads(r, {"model.mamba_num_heads", m.mamba.num_heads}, "heads of Mamba-2");
  // Neighbours may have copies of a group.
  const bool has_copies = m.mamba.num_groups % p.tp == 0 && p.cp % (m.mamba.num_groups / p.tp) == 0;
  if (has_copies) return;
  check_heads(r, {"model.mamba_num_groups", m.mamba.num_groups}, "groups of Mamba-2");
}

}  // namespace shardsim
