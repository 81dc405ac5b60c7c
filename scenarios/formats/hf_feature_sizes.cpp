#include "scenarios/formats/hf_feature_sizes.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "scenarios/formats/hf_family.hpp"
#include "scenarios/formats/hf_layers.hpp"
#include "scenarios/formats/hf_size_count.hpp"

namespace shardsim {

namespace {

constexpr const char* kNoList = "its size needs a list of whole numbers";

// DeepSeek-V4's layers with compressed keys and values: DeepseekV4HCACompressor makes one entry of
// so many positions by two projections to a head. DeepseekV4CSACompressor, for ratio 4, makes it of
// twice as many positions, which overlap, by projections to two heads. Read in
// huggingface/transformers, src/transformers/models/deepseek_v4/modular_deepseek_v4.py @02356fe and
// configuration_deepseek_v4.py @015c078: ratios beyond the layers are of multi-token prediction.
constexpr std::int64_t kOverlappingRatio = 4;

struct CompressedLayers {
  std::int64_t layers = 0;
  std::int64_t overlapping = 0;
  SizeCount columns = 0;  ///< Heads that a projection makes: one, or two where entries overlap.
  SizeCount biases = 0;   ///< One per position of an entry and column, in heads.
};

// Nothing: a ratio is no whole number.
std::optional<CompressedLayers> find_compressed_layers(ForeignObject& config,
                                                       std::int64_t num_layers) {
  CompressedLayers found;
  const JsonValue* ratios = config.find("compress_ratios");
  if (ratios == nullptr || !ratios->is_array()) return std::nullopt;
  const auto listed = static_cast<std::int64_t>(ratios->array().size());
  for (std::int64_t i = 0; i < std::min(num_layers, listed); ++i) {
    const double number = ratios->array()[static_cast<std::size_t>(i)].number().value_or(-1.0);
    const bool is_count = number >= 0.0 && number <= static_cast<double>(kForeignCount.most);
    if (!is_count || std::floor(number) != number) return std::nullopt;
    const auto ratio = static_cast<std::int64_t>(number);
    if (ratio == 0) continue;
    const std::int64_t columns = ratio == kOverlappingRatio ? 2 : 1;
    ++found.layers;
    found.overlapping += columns - 1;
    found.columns = found.columns + columns;
    found.biases = found.biases + SizeCount(ratio) * columns;
  }
  return found;
}

// DeepseekV4Indexer, in layers of ratio 4: n queries of d from the compressed query, n weights, and
// a compressor of its own with heads of d. A token scores each key by n dot products.
std::string compressed_indexer_size(ForeignObject& config) {
  SizeKeys keys;
  const SizeCount h = keys(config, "hidden_size");
  const SizeCount rank = keys(config, "q_lora_rank");
  const SizeCount n = keys(config, "index_n_heads");
  const SizeCount d = keys(config, "index_head_dim");
  const std::int64_t num_layers = keys(config, "num_hidden_layers");
  if (!keys.are_there()) return keys.words();
  const auto found = find_compressed_layers(config, num_layers);
  if (!found) return kNoList;
  const SizeCount matrices = rank * n * d + h * n + 2 * h * (2 * d);
  const SizeCount vectors = kOverlappingRatio * (2 * d) + d;
  const SizeCount layers = found->overlapping;
  return fmt::format("{} in all {} layers of ratio {}, and {} more for each compressed key",
                     cost_words(layers * (matrices + vectors), 2 * layers * matrices),
                     found->overlapping, kOverlappingRatio, (2 * layers * n * d).words());
}

// The kind of every layer that has experts, by the same rules as those of models that are read.
std::int64_t layers_with_experts(ForeignObject& config, std::int64_t num_layers) {
  std::vector<HfLayer> layers(static_cast<std::size_t>(num_layers));
  read_hf_expert_layers(config, layers);
  return std::count_if(layers.begin(), layers.end(), [](const HfLayer& layer) {
    return layer.feed_forward == FeedForward::experts;
  });
}

std::string experts_words(SizeCount projections, SizeCount experts, SizeCount flops,
                          std::int64_t layers) {
  return fmt::format(
      "{} parameters of projections and {} of experts, and {} FLOPs per token forward, in each of "
      "{} layers",
      projections.words(), experts.words(), flops.words(), layers);
}

}  // namespace

// DeepSeek-V3.2's, arXiv 2512.02556, and deepseek_v32 in transformers: for each layer a projection
// of the compressed query to n heads of d, one key of d with its LayerNorm, and n weights. A token
// scores each earlier position by n dot products of d.
std::string indexer_size(ForeignObject& config) {
  if (config.has("compress_ratios")) return compressed_indexer_size(config);
  SizeKeys keys;
  const SizeCount h = keys(config, "hidden_size");
  const SizeCount rank = keys(config, "q_lora_rank");
  const SizeCount n = keys(config, "index_n_heads");
  const SizeCount d = keys(config, "index_head_dim");
  const std::int64_t num_layers = keys(config, "num_hidden_layers");
  if (!keys.are_there()) return keys.words();
  const SizeCount matrices = rank * n * d + h * d + h * n;
  const SizeCount layers = num_layers;
  return fmt::format("{} in all {} layers, and {} more for each earlier position",
                     cost_words(layers * (matrices + 2 * d), 2 * layers * matrices), num_layers,
                     (2 * layers * n * d).words());
}

// Two projections, their biases by position, and a norm of the entry. Its heads are keys and values
// alike: n queries of d score an entry, and add it up.
std::string compressed_attention_size(ForeignObject& config) {
  SizeKeys keys;
  const SizeCount h = keys(config, "hidden_size");
  const SizeCount d = keys(config, "head_dim");
  const SizeCount n = keys(config, "num_attention_heads");
  const std::int64_t num_layers = keys(config, "num_hidden_layers");
  if (!keys.are_there()) return keys.words();
  const auto found = find_compressed_layers(config, num_layers);
  if (!found) return kNoList;
  const SizeCount matrices = 2 * h * d * found->columns;
  const SizeCount vectors = d * found->biases + d * found->layers;
  return fmt::format("{} of {} layers: {}, and in a layer {} more for each compressed entry",
                     found->layers, num_layers, cost_words(matrices + vectors, 2 * matrices),
                     (4 * n * d).words());
}

// DeepseekV4HyperConnection, ahead of attention and of the MLP: m streams of h are projected to
// m + m + m m numbers, which have biases and three scales; the first m add the streams up to the
// input, and the last m m mix them. DeepseekV4HyperHead adds them up ahead of the last norm. Source
// as above. Sinkhorn's steps on m m numbers count none.
std::string hyper_connections_size(ForeignObject& config) {
  SizeKeys keys;
  const SizeCount h = keys(config, "hidden_size");
  const SizeCount m = keys(config, "hc_mult");
  const std::int64_t num_layers = keys(config, "num_hidden_layers");
  if (!keys.are_there()) return keys.words();
  const SizeCount sites = 2 * SizeCount(num_layers);
  const SizeCount mixed = (SizeCount(2) + m) * m;
  const SizeCount parameters = sites * (mixed * m * h + mixed + 3) + m * m * h + m + 1;
  const SizeCount flops = 2 * h * (sites * (mixed * m + m + m * m) + m * m + m);
  return fmt::format("{} in all {} layers and ahead of the last norm",
                     cost_words(parameters, flops), num_layers);
}

// DeepseekV4HashRouter, source as above: a router like others, whose scores weigh the experts;
// which ones is looked up in a table that is not trained.
std::string hash_layers_size(ForeignObject& config) {
  SizeKeys keys;
  const SizeCount vocab = keys(config, "vocab_size");
  const SizeCount chosen = keys(config, "num_experts_per_tok");
  const std::int64_t layers = keys(config, "num_hash_layers");
  if (!keys.are_there()) return keys.words();
  return fmt::format(
      "0 parameters and 0 FLOPs beside a router's, and a fixed table of {} experts' numbers in "
      "each of {} layers",
      (vocab * chosen).words(), layers);
}

// DeepseekV4GroupedLinear and o_b_proj of DeepseekV4Attention, source as above: g groups of heads,
// n d / g wide, become g times r numbers, which are projected to h.
std::string grouped_output_size(ForeignObject& config) {
  SizeKeys keys;
  const SizeCount h = keys(config, "hidden_size");
  const SizeCount n = keys(config, "num_attention_heads");
  const SizeCount d = keys(config, "head_dim");
  const SizeCount groups = keys(config, "o_groups");
  const SizeCount rank = keys(config, "o_lora_rank");
  const std::int64_t num_layers = keys(config, "num_hidden_layers");
  if (!keys.are_there()) return keys.words();
  const SizeCount matrices = SizeCount(num_layers) * (n * d * rank + groups * rank * h);
  return fmt::format("{} in all {} layers", cost_words(matrices, 2 * matrices), num_layers);
}

// None: the file has no list of them.
std::optional<std::int64_t> num_delta_layers(ForeignObject& linear) {
  const JsonValue* listed = linear.find("kda_layers");
  if (listed == nullptr || !listed->is_array()) return std::nullopt;
  return static_cast<std::int64_t>(listed->array().size());
}

// KimiDeltaAttention in NVIDIA-NeMo/Automodel, nemo_automodel/components/models/kimi_k3/model.py
// @9a9b020, for n heads of d, D = n d: query, key, value and output, each h D; convolutions of w
// over the first three; decays through d; n steps; a gate of h D, or through d; a decay and D
// biases, and a norm of d. Per head and token three products with a state of d d:
// fla-org/flash-linear-attention, fla/ops/kda/naive.py @2605153, naive_recurrent_kda.
std::string kimi_delta_size(ForeignObject& config) {
  ForeignObject inner = config.inner("linear_attn_config");
  SizeKeys keys;
  const SizeCount h = keys(config, "hidden_size");
  const std::int64_t num_layers = keys(config, "num_hidden_layers");
  const std::int64_t heads = keys(inner, "num_heads");
  const std::int64_t head_size = keys(inner, "head_dim");
  const SizeCount kernel = keys(inner, "short_conv_kernel_size");
  if (!keys.are_there()) return keys.words();
  const std::optional<std::int64_t> num_delta = num_delta_layers(inner);
  if (!num_delta) return fmt::format("its size needs a list {}", inner.name_of("kda_layers"));
  const SizeCount n = heads;
  const SizeCount d = head_size;
  const SizeCount width = n * d;
  const SizeCount low_rank = h * d + d * width;
  const bool is_full = inner.truth("use_full_rank_gate").value_or(false);
  const SizeCount matrices = 4 * h * width + low_rank + h * n + (is_full ? h * width : low_rank);
  const SizeCount vectors = 3 * kernel * width + n + width + d;
  const SizeCount layers = *num_delta;
  return fmt::format(
      "{} of {} layers, {} heads of {}: {}", *num_delta, num_layers, heads, head_size,
      cost_words(layers * (matrices + vectors), 2 * layers * (matrices + 3 * width * d)));
}

// KimiMLAAttention, source as above: a projection to the values of all heads, in layers without
// KDA.
std::string latent_gate_size(ForeignObject& config) {
  ForeignObject inner = config.inner("linear_attn_config");
  SizeKeys keys;
  const SizeCount h = keys(config, "hidden_size");
  const SizeCount n = keys(config, "num_attention_heads");
  const SizeCount d = keys(config, "v_head_dim");
  const std::int64_t num_layers = keys(config, "num_hidden_layers");
  if (!keys.are_there()) return keys.words();
  const std::int64_t num_delta = num_delta_layers(inner).value_or(0);
  const std::int64_t gated = std::max<std::int64_t>(num_layers - num_delta, 0);
  const SizeCount matrices = gated * h * n * d;
  return fmt::format("{} of {} layers: {}", gated, num_layers, cost_words(matrices, 2 * matrices));
}

// KimiDecoderLayer and KimiK3TextModel, source as above: ahead of attention, of the MLP and of the
// last norm, scores by a vector of h, with a norm of h, weigh the sum within the block and what
// stood ahead of each block of layers so far. Ahead of the first attention there is one state.
std::string residual_attention_size(ForeignObject& config) {
  SizeKeys keys;
  const SizeCount h = keys(config, "hidden_size");
  const std::int64_t num_layers = keys(config, "num_hidden_layers");
  const std::int64_t block = keys(config, "attn_res_block_size");
  if (!keys.are_there()) return keys.words();
  const auto begun_ahead_of = [block](std::int64_t layer) { return (layer + block - 1) / block; };
  SizeCount states = begun_ahead_of(num_layers) + 1;
  for (std::int64_t i = 0; i < num_layers; ++i) {
    if (i > 0) states = states + (begun_ahead_of(i) + 1);
    states = states + (begun_ahead_of(i + 1) + 1);
  }
  const SizeCount parameters = (4 * SizeCount(num_layers) + 2) * h;
  return fmt::format("{} in all {} layers and ahead of the last norm",
                     cost_words(parameters, 4 * h * states), num_layers);
}

// KimiK3MoE, source as above: a projection of the stream to l and one back, a norm of l between
// them where the file says so, and gated experts of l.
std::string projected_experts_size(ForeignObject& config) {
  SizeKeys keys;
  const SizeCount h = keys(config, "hidden_size");
  const SizeCount l = keys(config, "routed_expert_hidden_size");
  const SizeCount width = keys(config, "moe_intermediate_size");
  const SizeCount experts = keys(config, "num_experts");
  const SizeCount chosen = keys(config, "num_experts_per_token");
  const std::int64_t num_layers = keys(config, "num_hidden_layers");
  if (!keys.are_there()) return keys.words();
  const bool has_norm = config.truth("latent_moe_use_norm").value_or(false);
  const SizeCount projections = 2 * h * l;
  const SizeCount expert = 3 * l * width;
  return experts_words(projections + (has_norm ? l : SizeCount(0)), experts * expert,
                       2 * (projections + chosen * expert),
                       layers_with_experts(config, num_layers));
}

// MiniMaxLightningAttention in huggingface/transformers,
// src/transformers/models/minimax/modular_minimax.py @008e574, for n heads of d, D = n d: query,
// key, value, gate and output, each h D, and a norm of D. Per head and token two products with a
// state of d d.
std::string lightning_size(ForeignObject& config) {
  const JsonValue* kinds = config.find("attn_type_list");
  if (kinds == nullptr || !kinds->is_array()) return kNoList;
  const std::int64_t num_lightning = std::ranges::count_if(
      kinds->array(), [](const JsonValue& kind) { return kind.number().value_or(0.0) != 1.0; });
  SizeKeys keys;
  const SizeCount h = keys(config, "hidden_size");
  const SizeCount n = keys(config, "num_attention_heads");
  const SizeCount d = keys(config, "head_dim");
  if (!keys.are_there()) return keys.words();
  const SizeCount layers = num_lightning;
  const SizeCount matrices = 5 * h * n * d;
  return fmt::format(
      "{} of {} layers: {}", num_lightning, kinds->array().size(),
      cost_words(layers * (matrices + n * d), 2 * layers * (matrices + 2 * n * d * d)));
}

}  // namespace shardsim
