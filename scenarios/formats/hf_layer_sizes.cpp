#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "scenarios/formats/hf_feature_sizes.hpp"
#include "scenarios/formats/hf_size_count.hpp"

// Sizes of layers that differ from all that a scenario has: Gemma 4's, and blocks with sizes of
// their own. Gemma 4's code and defaults were read in huggingface/transformers,
// src/transformers/models/gemma4/modular_gemma4.py @033b1a8 and configuration_gemma4.py @008e574.
namespace shardsim {

namespace {

// Defaults of Gemma4TextConfig.
constexpr std::int64_t kLayerVocab = 262144;
constexpr std::int64_t kLayerInput = 256;
constexpr std::int64_t kGlobalHead = 512;
constexpr std::int64_t kGemma4Period = 6;

bool is_gemma4(ForeignObject& config) {
  return config.text("model_type").value_or("").rfind("gemma4", 0) == 0;
}

// The layers at the end that read keys and values of earlier ones.
std::int64_t sharing_layers(ForeignObject& config, std::int64_t num_layers) {
  const std::int64_t shared = config.integer("num_kv_shared_layers", kForeignCount).value_or(0);
  return std::min(shared, num_layers);
}

// By its list, or the last of each six; the last layer sees everything, whatever the list says.
bool is_full_layer(ForeignObject& config, std::int64_t layer, std::int64_t num_layers) {
  const std::vector<JsonValue>* kinds = config.list("layer_types");
  const auto at = static_cast<std::size_t>(layer);
  if (layer + 1 == num_layers) return true;
  if (kinds == nullptr || at >= kinds->size()) return (layer + 1) % kGemma4Period == 0;
  return (*kinds)[at].is_string() && (*kinds)[at].string() == "full_attention";
}

std::optional<double> positive_number(ForeignObject& part, const char* key) {
  const std::optional<double> number = part.number(key);
  return number && *number > 0.0 && *number <= static_cast<double>(kForeignCount.most)
             ? number
             : std::nullopt;
}

// Heads of keys and values are the heads over n_heads_in_group. Nothing: the file does not say it.
std::optional<SizeCount> own_attention(ForeignObject& part, std::int64_t hidden, std::int64_t heads,
                                       std::int64_t head_dim) {
  if (part.truth("replace_with_linear").value_or(false)) return SizeCount(hidden) * hidden;
  const std::optional<std::int64_t> group = part.integer("n_heads_in_group", kForeignDegree);
  if (!group) return std::nullopt;
  return 2 * SizeCount(hidden) * head_dim * (SizeCount(heads) + heads / *group);
}

// Two thirds of ffn_mult times the stream's width, filled up to a multiple of 256.
std::optional<SizeCount> own_feed_forward(ForeignObject& part, std::int64_t hidden) {
  if (part.truth("replace_with_linear").value_or(false)) return SizeCount(hidden) * hidden;
  if (const auto width = part.integer("intermediate_size", kForeignSize)) {
    return 3 * SizeCount(hidden) * *width;
  }
  const std::optional<double> factor = positive_number(part, "ffn_mult");
  if (!factor) return std::nullopt;
  constexpr std::int64_t kMultiple = 256;
  const auto width = static_cast<std::int64_t>(2.0 * *factor * static_cast<double>(hidden) / 3.0);
  return 3 * SizeCount(hidden) * ((width + kMultiple - 1) / kMultiple * kMultiple);
}

}  // namespace

// DeciLMDecoderLayer in vllm-project/vllm, vllm/model_executor/models/nemotron_nas.py @00bd149: a
// part that is no_op has neither matrices nor a norm. Scores of attention are left out.
std::string own_blocks_size(ForeignObject& config) {
  constexpr const char* kList = "block_configs";
  const JsonValue* blocks = config.find(kList);
  if (blocks == nullptr || !blocks->is_array()) return "its size needs a list of blocks";
  SizeKeys keys;
  const std::int64_t hidden = keys(config, "hidden_size");
  const std::int64_t heads = keys(config, "num_attention_heads");
  if (!keys.are_there()) return keys.words();
  const std::int64_t head_dim =
      config.integer("head_dim", kForeignSize).value_or(std::max<std::int64_t>(hidden / heads, 1));
  SizeCount matrices = 0;
  std::int64_t norms = 0;
  const std::vector<JsonValue>& list = blocks->array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_object()) return "its size needs a list of blocks";
    ForeignObject block(&list[i], fmt::format("{}[{}].", kList, i));
    for (const char* const name : {"attention", "ffn"}) {
      ForeignObject part = block.inner(name);
      if (part.truth("no_op").value_or(false)) continue;
      const bool attends = std::string(name) == "attention";
      const auto size =
          attends ? own_attention(part, hidden, heads, head_dim) : own_feed_forward(part, hidden);
      if (!size) {
        return fmt::format("its size needs {}",
                           part.name_of(attends ? "n_heads_in_group" : "ffn_mult"));
      }
      matrices = matrices + *size;
      ++norms;
    }
  }
  return fmt::format("{} in all {} blocks, without scores of attention",
                     cost_words(matrices + SizeCount(norms) * hidden, 2 * matrices), list.size());
}

// Gemma4TextModel and Gemma4TextDecoderLayer: a table of L p, a projection of the embedding to as
// many numbers, with a norm of p; in each layer a gate to p and a projection back, with a norm.
std::string layer_embeddings_size(ForeignObject& config) {
  SizeKeys keys;
  const SizeCount h = keys(config, "hidden_size");
  const SizeCount layers = keys(config, "num_hidden_layers");
  const bool has_defaults = is_gemma4(config);
  const auto size_of = [&](const char* key, std::int64_t otherwise) -> SizeCount {
    if (has_defaults) return config.integer(key, kForeignSize).value_or(otherwise);
    return keys(config, key);
  };
  const SizeCount p = size_of("hidden_size_per_layer_input", kLayerInput);
  const SizeCount vocab = size_of("vocab_size_per_layer_input", kLayerVocab);
  if (!keys.are_there()) return keys.words();
  const SizeCount matrices = 3 * h * layers * p;
  return fmt::format("{}, {} of them in a table",
                     cost_words(vocab * layers * p + matrices + p + layers * h, 2 * matrices),
                     (vocab * layers * p).words());
}

// Gemma4TextAttention: such a layer has no projections of keys and values, and no norm of keys.
std::string shared_keys_size(ForeignObject& config) {
  if (!is_gemma4(config)) return "";
  SizeKeys keys;
  const SizeCount h = keys(config, "hidden_size");
  const std::int64_t groups = keys(config, "num_key_value_heads");
  const std::int64_t head_dim = keys(config, "head_dim");
  const std::int64_t num_layers = keys(config, "num_hidden_layers");
  if (!keys.are_there()) return keys.words();
  const std::int64_t wide = config.integer("global_head_dim", kForeignSize).value_or(kGlobalHead);
  const bool are_values = config.truth("attention_k_eq_v").value_or(false);
  const std::int64_t few =
      are_values ? config.integer("num_global_key_value_heads", kForeignDegree).value_or(groups)
                 : groups;
  const std::int64_t sharing = sharing_layers(config, num_layers);
  SizeCount matrices = 0;
  SizeCount norms = 0;
  for (std::int64_t i = num_layers - sharing; i < num_layers; ++i) {
    const bool is_full = is_full_layer(config, i, num_layers);
    const SizeCount keys_alone =
        h * (is_full ? SizeCount(few) * wide : SizeCount(groups) * head_dim);
    matrices = matrices + (is_full && are_values ? 1 : 2) * keys_alone;
    norms = norms + (is_full ? wide : head_dim);
  }
  return fmt::format("the last {} of {} layers lack {} of keys and values", sharing, num_layers,
                     cost_words(matrices + norms, 2 * matrices));
}

// Gemma4TextRouter and Gemma4TextExperts, in each layer: a router with a factor for each element
// and for each expert, gated experts, and three norms.
std::string parallel_experts_size(ForeignObject& config) {
  SizeKeys keys;
  const SizeCount h = keys(config, "hidden_size");
  const SizeCount experts = keys(config, "num_experts");
  const SizeCount chosen = keys(config, "top_k_experts");
  const SizeCount width = keys(config, "moe_intermediate_size");
  const std::int64_t num_layers = keys(config, "num_hidden_layers");
  if (!keys.are_there()) return keys.words();
  const SizeCount layers = num_layers;
  const SizeCount expert = 3 * h * width;
  const SizeCount router = h * experts;
  return fmt::format("{} beside the MLP's, in all {} layers",
                     cost_words(layers * (router + h + experts + experts * expert + 3 * h),
                                2 * layers * (router + chosen * expert)),
                     num_layers);
}

// Gemma4TextMLP: layers that share keys have an MLP of twice the width, unless all of them do.
std::string double_wide_size(ForeignObject& config) {
  SizeKeys keys;
  const SizeCount h = keys(config, "hidden_size");
  const SizeCount width = keys(config, "intermediate_size");
  const std::int64_t num_layers = keys(config, "num_hidden_layers");
  if (!keys.are_there()) return keys.words();
  const std::int64_t sharing = sharing_layers(config, num_layers);
  if (sharing == 0 || sharing == num_layers) return "";
  const SizeCount matrices = sharing * (3 * h * width);
  return fmt::format("{} more in the last {} of {} layers", cost_words(matrices, 2 * matrices),
                     sharing, num_layers);
}

}  // namespace shardsim
