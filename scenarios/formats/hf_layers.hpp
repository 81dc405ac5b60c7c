#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "strategies/model/layer_options.hpp"

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/hf_family.hpp"
#include "scenarios/formats/import.hpp"

// The layers of a Hugging Face model one by one: every rule of config.json is expanded into a list.
namespace shardsim {

struct HfLayer {
  Mixer mixer = Mixer::attention;
  FeedForward feed_forward = FeedForward::dense;  ///< Never automatic.
  std::string attention = "full";                 ///< As model.layers has it.
  bool rotary = true;
  bool sinks = false;
  double rope_theta = 0.0;  ///< 0: the model's.
  HeadOptions heads = {};   ///< Where they are not the model's.

  friend bool operator==(const HfLayer&, const HfLayer&) = default;
};

/// A size of heads, and the key that a file has for it.
struct HfHeadKey {
  const char* key;
  std::int64_t HeadOptions::*size;
};
/// Those sizes that the object has; the others stay.
void take_hf_heads(ForeignObject& object, std::initializer_list<HfHeadKey> keys,
                   HeadOptions& heads);

/// Names of a file's layers in order, and the key that lists them. Without a list both are empty.
struct HfKinds {
  std::string key;
  std::vector<std::string> names;
};
/// By `layer_types`, `layers_block_type` or the letters of `hybrid_override_pattern`. Throws
/// ScenarioError E1346: a letter that is none.
[[nodiscard]] HfKinds find_hf_kinds(ForeignObject& config, const HfFamily& family);

/// The blocks of a depth of multi-token prediction, where they are not one as the `last` layer is:
/// by `mtp_layers_block_type` or the letters of `mtp_hybrid_override_pattern` in families of one
/// branch; attention in others that mix by more. Throws ScenarioError E1346: an unknown letter.
[[nodiscard]] std::vector<HfLayer> read_hf_prediction(ForeignObject& config, const HfFamily& family,
                                                      const HfLayer& last);

/// Adds a sentence without a full stop for each kind of layer that model.layers cannot say.
void add_hf_layer_limits(ForeignObject& config, const HfFamily& family,
                         std::vector<std::string>& list);

/// The kind of every layer, by a list, `full_attention_interval`, or `sliding_window` with what
/// switches it on, and `no_rope_layers` or `no_rope_layer_interval`. `with_experts`: some have
/// them, see read_hf_expert_layers. Throws ScenarioError E1346: lists of another length than the
/// layers.
[[nodiscard]] std::vector<HfLayer> read_hf_layers(ForeignObject& config, const HfFamily& family,
                                                  std::int64_t num_layers, bool with_experts);

/// Writes model.layers, unless all are as layers are without it, or model.first_dense_layers. A
/// pattern that comes again is written once, with model.layers_cycle.
void write_hf_layers(ForeignObject& config, const std::vector<HfLayer>& layers,
                     const HfFamily& family, Import& import);

/// The list under a key, one entry per layer; null if there is none, or it is empty. Throws
/// ScenarioError E1346, and E1353: it is no list.
[[nodiscard]] const std::vector<JsonValue>* hf_list_of(ForeignObject& config,
                                                       const std::string& key,
                                                       std::int64_t num_layers);

/// The same of numbers, where true is 1; without a list none. Throws as above.
[[nodiscard]] std::vector<double> hf_numbers_of(ForeignObject& config, const std::string& key,
                                                std::int64_t num_layers);

/// Gives experts to the layers that have them. Each key has a phase of its own: decoder_sparse_step
/// and moe_layer_interval N mean each N-th layer, from layer N - 1 on, moe_layer_freq N from layer
/// 0 on, of those from first_k_dense_replace on. mlp_layer_types says it layer by layer, and alone.
void read_hf_expert_layers(ForeignObject& config, std::vector<HfLayer>& layers);

/// The dense layers before the first one with experts; -1 if dense ones follow.
[[nodiscard]] std::int64_t leading_dense_layers(const std::vector<HfLayer>& layers);

/// The key that says which layers have experts, where there is one.
[[nodiscard]] std::string cause_of_hf_expert_layers(ForeignObject& config);

}  // namespace shardsim
