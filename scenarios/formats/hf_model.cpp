#include "scenarios/formats/hf_model.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace shardsim {

namespace {

// Families with Llama's blocks, and their differences. Defaults are those of the configuration
// classes of transformers 4.56. GPT-2 is read elsewhere.
constexpr std::array kHfFamilies = {
    HfFamily{.model_type = "llama"},
    HfFamily{.model_type = "mistral"},
    HfFamily{.model_type = "ministral3"},
    HfFamily{.model_type = "mimo", .attention_bias = true},
    HfFamily{.model_type = "phi3"},
    HfFamily{.model_type = "qwen2", .attention_bias = true},
    HfFamily{.model_type = "qwen3", .query_key_norm = true},
    HfFamily{.model_type = "qwen3_vl_text", .query_key_norm = true},
    HfFamily{.model_type = "seed_oss"},
    HfFamily{.model_type = "smollm3", .tied = true},
    HfFamily{.model_type = "mixtral", .experts = true},
    HfFamily{
        .model_type = "qwen2_moe", .experts = true, .attention_bias = true, .normalised = false},
    HfFamily{
        .model_type = "qwen3_moe", .experts = true, .query_key_norm = true, .normalised = false},
    HfFamily{.model_type = "qwen3_vl_moe_text",
             .experts = true,
             .query_key_norm = true,
             .normalised = false},
    HfFamily{.model_type = "deepseek", .experts = true, .normalised = false},
    HfFamily{.model_type = "deepseek_v2",
             .experts = true,
             .normalised = false,
             .group_score = GroupScore::maximum},
    HfFamily{.model_type = "deepseek_v3",
             .experts = true,
             .score = RouterScore::sigmoid,
             .choice_bias = true},
    HfFamily{.model_type = "kimi_k2",
             .experts = true,
             .score = RouterScore::sigmoid,
             .choice_bias = true},
    // Attention is read as DeepSeek-V3's; its indexer is refused by its keys.
    HfFamily{.model_type = "glm_moe_dsa",
             .experts = true,
             .score = RouterScore::sigmoid,
             .choice_bias = true},
    HfFamily{.model_type = "minimax_m2",
             .experts = true,
             .query_key_norm = true,
             .norm_kind = QueryKeyNorm::whole,
             .score = RouterScore::sigmoid,
             .choice_bias = true},
    HfFamily{.model_type = "glm4_moe",
             .experts = true,
             .output_bias = false,
             .score = RouterScore::sigmoid,
             .choice_bias = true},
    HfFamily{.model_type = "ernie4_5_moe", .experts = true, .tied = true, .choice_bias = true},
    HfFamily{.model_type = "gemma2", .tied = true, .defaults = {.head_dim = 256}},
    HfFamily{.model_type = "gemma3_text",
             .tied = true,
             .rope_theta = 1e6,
             .defaults = {.heads = 8,
                          .key_value_heads = 4,
                          .head_dim = 256,
                          .vocab = 262208,
                          .positions = 131072}},
    HfFamily{.model_type = "olmo2"},
    HfFamily{.model_type = "olmo3"},
    HfFamily{.model_type = "exaone4"},
    HfFamily{.model_type = "cohere2", .tied = true},
    HfFamily{.model_type = "nemotron", .rotary_part = 0.5},
    HfFamily{.model_type = "granite"},
    // Defaults of Llama4TextConfig and Step3p7TextConfig, transformers 5.
    HfFamily{.model_type = "llama4_text",
             .experts = true,
             .query_key_norm = true,
             .norm_kind = QueryKeyNorm::weightless,
             .score = RouterScore::sigmoid,
             .normalised = false,
             .rope_theta = 500000.0,
             .norm_epsilon = 1e-5,
             .defaults = {.heads = 40,
                          .key_value_heads = 8,
                          .head_dim = 128,
                          .vocab = 202048,
                          .positions = 131072},
             .own = &kHfLlama4Keys},
    HfFamily{.model_type = "step3p5",
             .experts = true,
             .query_key_norm = true,
             .norm_epsilon = 1e-5,
             .defaults = {.heads = 64,
                          .key_value_heads = 8,
                          .head_dim = 128,
                          .vocab = 128815,
                          .positions = 128000},
             .own = &kHfStepKeys},
    HfFamily{.model_type = "step3p7",
             .experts = true,
             .query_key_norm = true,
             .norm_epsilon = 1e-5,
             .defaults = {.heads = 64,
                          .key_value_heads = 8,
                          .head_dim = 128,
                          .vocab = 128815,
                          .positions = 128000},
             .own = &kHfStepKeys},
    HfFamily{.model_type = "gpt_oss", .experts = true, .attention_bias = true, .gpt_oss = true},
};

// Reads required keys and remembers the missing ones.
class Required {
 public:
  explicit Required(ForeignObject& config) : config_(&config) {}
  // `otherwise`: where it is missing, if above 0.
  std::int64_t integer(const std::vector<std::string>& keys,
                       const ForeignRange& range = kForeignSize, std::int64_t otherwise = 0) {
    for (const std::string& key : keys) {
      if (const auto value = config_->integer(key, range)) return *value;
    }
    if (otherwise > 0) return otherwise;
    missing_.push_back(keys.front());
    return 1;
  }
  void require_all(const std::string& file, const std::string& model_type) const {
    if (missing_.empty()) return;
    config_->refuse("E1354", "model_type",
                    fmt::format("{} lacks what a {} model needs: {}", file, model_type,
                                fmt::join(missing_, ", ")),
                    "take the config.json of the checkpoint itself, with all its keys");
  }

 private:
  ForeignObject* config_;
  std::vector<std::string> missing_;
};

void read_latent(ForeignObject& config, HfModel& model) {
  model.key_value_rank = config.integer("kv_lora_rank", kForeignCount).value_or(0);
  if (!model.is_latent()) return;
  model.query_rank = config.integer("q_lora_rank", kForeignCount).value_or(0);
  model.nope_dim = config.integer("qk_nope_head_dim", kForeignCount).value_or(0);
  model.rope_dim = config.integer("qk_rope_head_dim", kForeignCount).value_or(0);
  model.value_dim = config.integer("v_head_dim", kForeignCount).value_or(0);
}

void read_router(ForeignObject& config, const HfFamily& family, RouterOptions& router) {
  const std::string score = config.text("scoring_func").value_or("");
  router.score = family.score;
  if (score == "softmax") router.score = RouterScore::softmax;
  if (score == "sigmoid") router.score = RouterScore::sigmoid;
  router.normalised = config.truth("norm_topk_prob").value_or(family.normalised);
  router.scaling_factor = config.number("routed_scaling_factor").value_or(1.0);
  const std::string method = config.text("topk_method").value_or("");
  const bool has_bias = config.truth("use_routing_bias").value_or(family.choice_bias);
  if (has_bias || method == "noaux_tc") router.bias_update_rate = 1.0;
  router.group_score = family.group_score;
  const std::int64_t groups = config.integer("n_group", kForeignDegree).value_or(1);
  const std::int64_t chosen = config.integer("topk_group", kForeignDegree).value_or(1);
  if (method == "greedy") return;  // DeepSeek-V2-Lite names groups, and does not read them.
  router.num_groups = groups;
  router.group_topk = chosen;
}

void read_experts(ForeignObject& config, const HfFamily& family, Required& required,
                  HfModel& model) {
  model.num_experts = required.integer(
      {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"}, kForeignCount);
  model.experts_per_token = required.integer(
      {"num_experts_per_tok", "num_experts_per_token", "moe_k", "moe_top_k"}, kForeignCount);
  model.expert_ffn = config.integer("moe_intermediate_size", kForeignSize).value_or(model.ffn);
  for (const char* key : {"n_shared_experts", "moe_num_shared_experts"}) {
    const std::int64_t shared = config.integer(key, kForeignCount).value_or(0);
    if (shared > 0) model.shared_ffn = shared * model.expert_ffn;
  }
  if (const auto width = config.integer("shared_expert_intermediate_size", kForeignCount)) {
    model.shared_ffn = *width;
    model.shared_gate = *width > 0;
  }
  for (const char* key : {"first_k_dense_replace", "moe_layer_start_index"}) {
    if (const auto first = config.integer(key, kForeignCount)) model.dense_layers = *first;
  }
  read_router(config, family, model.router);
}

void read_rope(ForeignObject& config, const HfFamily& family, HfModel& model) {
  ForeignObject parameters = config.inner("rope_parameters");
  const JsonValue* theta = config.find("rope_theta");
  const bool is_list = theta != nullptr && theta->is_array() && !theta->array().empty();
  const double otherwise = parameters.number("rope_theta").value_or(family.rope_theta);
  model.rope_theta = is_list ? theta->array().front().number().value_or(otherwise)
                             : config.number("rope_theta").value_or(otherwise);
  const double part =
      config.number("partial_rotary_factor")
          .value_or(parameters.number("partial_rotary_factor").value_or(family.rotary_part));
  // As transformers rounds it.
  model.rotary_dim =
      config.integer("rotary_dim", kForeignSize)
          .value_or(static_cast<std::int64_t>(static_cast<double>(model.head_dim) * part));
}

std::int64_t latent_attention(const HfModel& m) {
  const std::int64_t query_dim = m.heads * (m.nope_dim + m.rope_dim);
  const std::int64_t query =
      m.query_rank == 0 ? m.hidden * query_dim
                        : m.hidden * m.query_rank + m.query_rank + m.query_rank * query_dim;
  const std::int64_t key_value = m.hidden * (m.key_value_rank + m.rope_dim) + m.key_value_rank +
                                 m.key_value_rank * m.heads * (m.nope_dim + m.value_dim);
  return query + key_value + m.heads * m.value_dim * m.hidden;
}

std::int64_t plain_attention(const HfModel& m) {
  return 2 * m.hidden * m.heads * m.head_dim + 2 * m.hidden * m.key_value_heads * m.head_dim;
}

}  // namespace

const HfFamily* find_hf_family(const std::string& model_type) {
  const auto* found = std::find_if(kHfFamilies.begin(), kHfFamilies.end(), [&](const auto& family) {
    return model_type == family.model_type;
  });
  return found == kHfFamilies.end() ? nullptr : found;
}

std::vector<std::string> hf_family_names() {
  std::vector<std::string> names = {"gpt2"};
  for (const HfFamily& family : kHfFamilies) names.emplace_back(family.model_type);
  return names;
}

std::int64_t HfModel::layer_parameters(bool with_experts) const {
  const std::int64_t attention = is_latent() ? latent_attention(*this) : plain_attention(*this);
  const std::int64_t matrices = shape.matrices();
  std::int64_t sparse =
      hidden * num_experts + matrices * hidden * (num_experts * expert_ffn + shared_ffn);
  if (shared_gate) sparse += hidden;
  if (expert_bias) sparse += num_experts * ((matrices - 1) * expert_ffn + hidden) + num_experts;
  if (router.has_choice_bias()) sparse += num_experts;
  const std::int64_t per_head = shape.query_key_norm == QueryKeyNorm::per_head ? 2 : 0;
  const std::int64_t query_key_norms = shape.query_key_norm == QueryKeyNorm::whole
                                           ? (heads + key_value_heads) * head_dim
                                           : per_head * head_dim;
  const std::int64_t dense =
      matrices * hidden * ffn + (mlp_bias ? (matrices - 1) * ffn + hidden : 0);
  const std::int64_t biases =
      (query_bias ? (heads + 2 * key_value_heads) * head_dim : 0) + (output_bias ? hidden : 0);
  return attention + shape.norms(hidden) + query_key_norms + biases + sinks +
         (with_experts ? sparse : dense);
}

void HfModel::set_sparse(const std::vector<bool>& layers) {
  const auto first = std::find(layers.begin(), layers.end(), true);
  const bool is_behind = std::find(first, layers.end(), false) == layers.end();
  dense_layers = is_behind ? first - layers.begin() : 0;
  sparse = is_behind ? std::vector<bool>() : layers;
}

std::int64_t HfModel::num_parameters() const {
  const std::int64_t behind_dense = num_layers - dense_layers;
  const std::int64_t moe_layers = num_experts == 0 ? 0
                                  : sparse.empty() ? behind_dense
                                                   : std::count(sparse.begin(), sparse.end(), true);
  const std::int64_t last_norm = shape.norm == NormKind::layer ? 2 * hidden : hidden;
  return (tied ? 1 : 2) * vocab * hidden + moe_layers * layer_parameters(true) +
         (num_layers - moe_layers) * layer_parameters(false) + last_norm;
}

std::int64_t HfModel::prediction_parameters() const {
  return 2 * hidden * hidden + 3 * hidden + layer_parameters(num_experts > 0 && !dense_prediction);
}

HfModel read_hf_model(ForeignObject& config, const HfFamily& family, bool tied,
                      const std::string& file) {
  HfModel model;
  Required required(config);
  model.model_type = family.model_type;
  model.num_layers = required.integer({"num_hidden_layers"}, kForeignDegree);
  model.hidden = required.integer({"hidden_size"});
  model.ffn = required.integer({"intermediate_size"});
  const HfDefaults& defaults = family.defaults;
  model.heads = required.integer({"num_attention_heads"}, kForeignDegree, defaults.heads);
  model.vocab = required.integer({"vocab_size"}, kForeignSize, defaults.vocab);
  model.positions = required.integer({"max_position_embeddings"}, kForeignSize, defaults.positions);
  if (family.experts) read_experts(config, family, required, model);
  required.require_all(file, family.model_type);
  model.key_value_heads =
      config.integer("num_key_value_heads", kForeignDegree)
          .value_or(defaults.key_value_heads > 0 ? defaults.key_value_heads : model.heads);
  model.head_dim =
      config.integer("head_dim", kForeignSize)
          .value_or(defaults.head_dim > 0 ? defaults.head_dim : model.hidden / model.heads);
  model.tied = config.truth("tie_word_embeddings").value_or(tied);
  model.norm_epsilon = family.norm_epsilon;
  for (const char* key : {"rms_norm_eps", "layer_norm_eps", "norm_eps"}) {
    if (const auto epsilon = config.number(key)) model.norm_epsilon = *epsilon;
  }
  const bool bias = config.truth("attention_bias").value_or(false);
  model.query_bias = family.attention_bias || bias || config.truth("qkv_bias").value_or(false);
  model.output_bias = config.truth("attention_out_bias")
                          .value_or(bias && family.output_bias && !family.attention_bias);
  model.mlp_bias = config.truth("mlp_bias").value_or(false);
  model.shape = read_hf_shape(config, model.model_type, model.hidden);
  if (config.truth("use_qk_norm").value_or(family.query_key_norm)) {
    const bool is_whole = config.written("qk_norm_type") == "\"per_layer\"";
    if (is_whole) (void)config.text("qk_norm_type");
    model.shape.query_key_norm = is_whole ? QueryKeyNorm::whole : family.norm_kind;
  }
  if (family.gpt_oss) {
    model.sinks = model.heads;
    model.expert_bias = true;
    model.output_bias = true;
  }
  read_latent(config, model);
  read_rope(config, family, model);
  if (family.own != nullptr) family.own->read(config, model);
  return model;
}

}  // namespace shardsim
