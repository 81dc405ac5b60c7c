#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "scenarios/formats/hf_feature_sizes.hpp"
#include "scenarios/formats/hf_keys.hpp"

// Features of models that no scenario can express, each known by its key.
namespace shardsim {

namespace {

struct HfFeature {
  const char* key;
  const char* words;
  std::string (*size)(ForeignObject& config) = nullptr;
  bool one_is_none = false;  // 1, as 0 for all, is a key without the feature.
};

constexpr std::array kHfFeatures = {
    HfFeature{"index_topk", "a sparse indexer, and attention to the positions that it chooses",
              indexer_size},
    HfFeature{"compress_ratios", "attention to compressed keys and values",
              compressed_attention_size},
    HfFeature{"sparse_attention_config", "sparse attention"},
    HfFeature{"hc_mult", "hyper-connections: so many residual streams", hyper_connections_size,
              true},
    HfFeature{"num_hash_layers", "layers that route by the token's hash", hash_layers_size},
    HfFeature{"o_lora_rank", "an output projection in groups of low rank", grouped_output_size},
    HfFeature{"linear_attn_config", "Kimi delta attention (KDA)", kimi_delta_size},
    HfFeature{"mla_use_output_gate", "a gate on what latent attention returns", latent_gate_size},
    HfFeature{"attn_res_block_size", "attention over the residuals of earlier blocks",
              residual_attention_size},
    HfFeature{"routed_expert_hidden_size", "experts on a narrower, projected state",
              projected_experts_size},
    HfFeature{"block_configs", "blocks with sizes of their own", own_blocks_size},
    HfFeature{"attn_type_list", "lightning attention", lightning_size},
    HfFeature{"hidden_size_per_layer_input", "embeddings for each layer", layer_embeddings_size},
    HfFeature{"num_kv_shared_layers", "layers that share keys and values", shared_keys_size},
    HfFeature{"enable_moe_block", "experts beside a dense MLP in one layer", parallel_experts_size},
};

bool is_one(const JsonValue& value) { return value.number() == 1.0; }

// Also where a feature's key is there without the feature: ones in a list of kinds, or as a scale.
bool is_absent(const HfFeature& feature, const JsonValue& value) {
  if (const auto* truth = std::get_if<bool>(&value.data)) return !*truth;
  if (const auto number = value.number())
    return *number == 0.0 || (feature.one_is_none && *number == 1.0);
  if (value.is_array()) return std::ranges::all_of(value.array(), is_one);
  return value.is_object() && value.object().empty();
}

}  // namespace

void add_hf_features(ForeignObject& config, std::vector<std::string>& features) {
  for (const HfFeature& feature : kHfFeatures) {
    const JsonValue* value = config.find(feature.key);
    if (value == nullptr || is_absent(feature, *value)) continue;
    std::string size = feature.size == nullptr ? "" : feature.size(config);
    if (size.empty()) size = "no formula for its size is known here";
    const std::string number = value->number() ? " " + config.written(feature.key) : "";
    features.push_back(
        fmt::format("{}{}: {} ({})", config.name_of(feature.key), number, feature.words, size));
  }
}

}  // namespace shardsim
