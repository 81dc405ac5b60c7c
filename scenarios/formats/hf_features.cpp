#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "scenarios/formats/hf_family.hpp"
#include "scenarios/formats/hf_keys.hpp"
#include "scenarios/formats/hf_layers.hpp"
#include "scenarios/linear_spec.hpp"

// Features of models that no scenario can express, each known by its key.
namespace shardsim {

namespace {

std::int64_t count_in(ForeignObject& config, const char* key) {
  return config.integer(key, kForeignCount).value_or(0);
}

// DeepSeek-V3.2's, arXiv 2512.02556, and deepseek_v32 in transformers: for each layer a projection
// of the compressed query to n heads of d, one key of d with its LayerNorm, and n weights. A token
// scores each earlier position by n dot products of d.
std::string indexer_size(ForeignObject& config) {
  const std::int64_t h = count_in(config, "hidden_size");
  const std::int64_t rank = count_in(config, "q_lora_rank");
  const std::int64_t n = count_in(config, "index_n_heads");
  const std::int64_t d = count_in(config, "index_head_dim");
  const std::int64_t layers = count_in(config, "num_hidden_layers");
  // DeepSeek-V4's reads compressed keys, by a formula of its own.
  if (h * rank * n * d * layers == 0 || config.has("compress_ratios")) return "";
  const std::int64_t matrices = rank * n * d + h * d + h * n;
  return fmt::format(
      "{} parameters and {} FLOPs per token forward in all {} layers, and {} more for each earlier "
      "position",
      layers * (matrices + 2 * d), 2 * layers * matrices, layers, 2 * layers * n * d);
}

std::string compressed_layers(ForeignObject& config) {
  const JsonValue* ratios = config.find("compress_ratios");
  if (ratios == nullptr || !ratios->is_array()) return "";
  const auto compressed = std::ranges::count_if(
      ratios->array(), [](const JsonValue& ratio) { return ratio.number().value_or(0.0) > 0.0; });
  return fmt::format("{} of {} listed layers; no formula for its size is known here", compressed,
                     ratios->array().size());
}

std::string kimi_delta_layers(ForeignObject& config) {
  ForeignObject inner = config.inner("linear_attn_config");
  const JsonValue* layers = inner.find("kda_layers");
  if (layers == nullptr || !layers->is_array()) return "";
  return fmt::format("{} of {} layers, {} heads of {}; no formula for its size is known here",
                     layers->array().size(), count_in(config, "num_hidden_layers"),
                     count_in(inner, "num_heads"), count_in(inner, "head_dim"));
}

std::string lightning_layers(ForeignObject& config) {
  const JsonValue* kinds = config.find("attn_type_list");
  if (kinds == nullptr || !kinds->is_array()) return "";
  const auto others = std::ranges::count_if(
      kinds->array(), [](const JsonValue& kind) { return kind.number().value_or(0.0) != 1.0; });
  return fmt::format("{} of {} layers", others, kinds->array().size());
}

// NemotronHMoE of transformers: a projection of the stream to l and one back, and experts of l.
std::string latent_experts_size(ForeignObject& config) {
  const HfFamily* family = find_hf_family(config.text("model_type").value_or(""));
  if (family == nullptr || !family->one_branch) return "";
  const std::vector<std::string> names = find_hf_kinds(config, *family).names;
  const auto layers = std::count(names.begin(), names.end(), "moe");
  const std::int64_t latent = count_in(config, "moe_latent_size");
  const std::int64_t width = count_in(config, "moe_intermediate_size");
  return fmt::format("{} parameters of projections and {} of experts in each of {} layers",
                     2 * count_in(config, "hidden_size") * latent,
                     2 * count_in(config, "n_routed_experts") * latent * width, layers);
}

// Falcon-H1's, whose inner width is mamba_d_ssm.
std::string parallel_mamba_size(ForeignObject& config) {
  ModelSpec spec;
  spec.hidden_size = count_in(config, "hidden_size");
  spec.mamba = {.num_heads = count_in(config, "mamba_n_heads"),
                .head_size = count_in(config, "mamba_d_head"),
                .num_groups = count_in(config, "mamba_n_groups"),
                .state_size = count_in(config, "mamba_d_state"),
                .conv_kernel = count_in(config, "mamba_d_conv")};
  const std::int64_t inner = spec.mamba.num_heads * spec.mamba.head_size;
  if (inner * spec.mamba.num_groups * spec.mamba.state_size * spec.mamba.conv_kernel == 0)
    return "";
  const bool has_norm = config.truth("mamba_rms_norm").value_or(false);
  return fmt::format("{} parameters of Mamba-2 in each of {} layers",
                     mamba_parameters(spec) - (has_norm ? 0 : inner),
                     count_in(config, "num_hidden_layers"));
}

struct HfFeature {
  const char* key;
  const char* words;
  std::string (*size)(ForeignObject& config) = nullptr;
};

constexpr std::array kHfFeatures = {
    HfFeature{"index_topk", "a sparse indexer, and attention to the positions that it chooses",
              indexer_size},
    HfFeature{"compress_ratios", "attention to compressed keys and values", compressed_layers},
    HfFeature{"sparse_attention_config", "sparse attention"},
    HfFeature{"hc_mult", "hyper-connections: so many residual streams"},
    HfFeature{"num_hash_layers", "layers that route by the token's hash"},
    HfFeature{"o_lora_rank", "an output projection in groups of low rank"},
    HfFeature{"linear_attn_config", "Kimi delta attention (KDA)", kimi_delta_layers},
    HfFeature{"attn_res_block_size", "attention over the residuals of earlier blocks"},
    HfFeature{"routed_expert_hidden_size", "experts on a narrower, projected state"},
    HfFeature{"moe_latent_size", "experts on a narrower, projected state", latent_experts_size},
    HfFeature{"mamba_d_ssm", "attention and Mamba-2 beside each other in a layer",
              parallel_mamba_size},
    HfFeature{"block_configs", "blocks with sizes of their own"},
    HfFeature{"attn_type_list", "lightning attention", lightning_layers},
    HfFeature{"hidden_size_per_layer_input", "embeddings for each layer"},
    HfFeature{"num_kv_shared_layers", "layers that share keys and values"},
    HfFeature{"enable_moe_block", "experts beside a dense MLP in one layer"},
    HfFeature{"attention_value_scale", "scaled values"},
};

bool is_one(const JsonValue& value) { return value.number() == 1.0; }

// Also where a feature's key is there without the feature: ones in a list of kinds, or as a scale.
bool is_absent(const JsonValue& value) {
  if (const auto* truth = std::get_if<bool>(&value.data)) return !*truth;
  if (const auto number = value.number()) return *number == 0.0 || *number == 1.0;
  if (value.is_array()) return std::ranges::all_of(value.array(), is_one);
  return value.is_object() && value.object().empty();
}

}  // namespace

void add_hf_features(ForeignObject& config, std::vector<std::string>& features) {
  for (const HfFeature& feature : kHfFeatures) {
    const JsonValue* value = config.find(feature.key);
    if (value == nullptr || is_absent(*value)) continue;
    const std::string size = feature.size == nullptr ? "" : feature.size(config);
    const std::string number = value->number() ? " " + config.written(feature.key) : "";
    features.push_back(fmt::format("{}{}: {}{}", config.name_of(feature.key), number, feature.words,
                                   size.empty() ? "" : " (" + size + ")"));
  }
}

}  // namespace shardsim
