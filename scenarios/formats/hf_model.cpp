#include "scenarios/formats/hf_model.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace shardsim {

namespace {

void require_all(ForeignObject& config, const HfRequired& required, const std::string& file,
                 const std::string& model_type) {
  if (required.missing().empty()) return;
  config.refuse("E1354", "model_type",
                fmt::format("{} lacks what a {} model needs: {}", file, model_type,
                            fmt::join(required.missing(), ", ")),
                "take the config.json of the checkpoint itself, with all its keys");
}

void read_latent(ForeignObject& config, HfModel& model) {
  model.key_value_rank = config.integer("kv_lora_rank", kForeignCount).value_or(0);
  if (!model.is_latent()) return;
  model.query_rank = config.integer("q_lora_rank", kForeignCount).value_or(0);
  model.nope_dim = config.integer("qk_nope_head_dim", kForeignCount).value_or(0);
  model.rope_dim = config.integer("qk_rope_head_dim", kForeignCount).value_or(0);
  model.value_dim = config.integer("v_head_dim", kForeignCount).value_or(0);
}

// A factor of 1 says nothing; one of another family than MiMo's is asked for by nobody, and
// refused.
void pass_unscaled_values(ForeignObject& config) {
  constexpr const char* kScale = "attention_value_scale";
  if (config.written(kScale).empty() || config.value_of(kScale).number() != 1.0) return;
  (void)config.has(kScale);
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

constexpr std::array kNumExperts = {"num_local_experts", "num_experts", "n_routed_experts",
                                    "moe_num_experts"};

// Granite's dense models have 0 experts, and Nemotron-H's no layer of them.
bool has_experts(ForeignObject& config, const HfFamily& family) {
  if (!family.experts) return false;
  if (family.one_branch) {
    const std::vector<std::string> names = find_hf_kinds(config, family).names;
    return std::find(names.begin(), names.end(), "moe") != names.end();
  }
  for (const char* key : kNumExperts) {
    if (const auto number = config.integer_of_layers(key, kForeignCount)) return *number > 0;
  }
  return true;
}

void read_experts(ForeignObject& config, const HfFamily& family, HfRequired& required,
                  HfModel& model) {
  model.num_experts = required.of_layers({kNumExperts.begin(), kNumExperts.end()}, kForeignCount);
  model.experts_per_token = required.of_layers(
      {"num_experts_per_tok", "num_experts_per_token", "moe_k", "moe_top_k", "moe_topk"},
      kForeignCount);
  model.expert_ffn =
      config.integer_of_layers("moe_intermediate_size", kForeignSize).value_or(model.ffn);
  if (family.one_branch)
    model.latent = config.integer("moe_latent_size", kForeignCount).value_or(0);
  for (const char* key : {"n_shared_experts", "moe_num_shared_experts", "num_shared_experts"}) {
    const std::int64_t shared = config.integer(key, kForeignCount).value_or(0);
    if (shared > 0) model.shared_ffn = shared * model.expert_ffn;
  }
  if (const auto width = config.integer(family.shared_width, kForeignCount)) {
    model.shared_ffn = *width;
    model.shared_width = family.shared_width;
    model.shared_gate = family.shared_gate && *width > 0;
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
      config.share("partial_rotary_factor")
          .value_or(parameters.share("partial_rotary_factor").value_or(family.rotary_part));
  if (!model.turns()) {
    model.rotary_dim = model.head_dim;
    return;
  }
  // As transformers rounds it.
  model.rotary_dim =
      config.integer("rotary_dim", kForeignSize)
          .value_or(static_cast<std::int64_t>(static_cast<double>(model.head_dim) * part));
  if (model.rotary_dim > 0 || model.is_latent()) return;
  model.rotary_dim = model.head_dim;  // A part of 0 turns nothing.
  for (HfLayer& layer : model.layers) {
    if (has_mixer(layer.mixer, Mixer::attention)) layer.rotary = false;
  }
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

// Queries, keys and values, and the output's matrix.
std::int64_t plain_attention(std::int64_t hidden, const HeadOptions& own) {
  const std::int64_t values = own.keys_are_values ? 0 : own.value_head_dim;
  return hidden * (own.num_attention_heads * (own.head_dim + own.value_head_dim) +
                   own.num_query_groups * (own.head_dim + values));
}

}  // namespace

std::int64_t HfModel::attention_parameters(const HfLayer& layer) const {
  const HeadOptions own = layer.heads.beside(own_heads());
  const std::int64_t matrices =
      is_latent() ? latent_attention(*this) : plain_attention(hidden, own);
  const std::int64_t queries = own.num_attention_heads * own.head_dim;
  const std::int64_t keys = own.num_query_groups * own.head_dim;
  const std::int64_t values = own.keys_are_values ? 0 : own.num_query_groups * own.value_head_dim;
  const std::int64_t per_head = shape.query_key_norm == QueryKeyNorm::per_head ? 2 : 0;
  const std::int64_t query_key_norms =
      shape.query_key_norm == QueryKeyNorm::whole ? queries + keys : per_head * own.head_dim;
  const std::int64_t biases =
      (query_bias ? queries + keys + values : 0) + (output_bias ? hidden : 0);
  const std::int64_t gates = output_gate ? own.num_attention_heads * own.value_head_dim
                             : head_gate ? own.num_attention_heads
                                         : 0;
  return matrices + query_key_norms + biases + (layer.sinks ? own.num_attention_heads : 0) +
         hidden * gates;
}

void HfModel::give_heads(const HeadOptions& all, HfLayer& layer) const {
  if (all.rotary_dim == 0) layer.rotary = false;
  layer.heads = heads_of_layer(all);
}

HeadOptions HfModel::heads_of_layer(const HeadOptions& all) const {
  const HeadOptions model = own_heads();
  HeadOptions own{.keys_are_values = all.keys_are_values};
  for (std::int64_t HeadOptions::*const size :
       {&HeadOptions::num_attention_heads, &HeadOptions::num_query_groups,
        &HeadOptions::head_dim}) {
    if (all.*size != model.*size) own.*size = all.*size;
  }
  // These follow from a head_dim of the layer's own.
  for (std::int64_t HeadOptions::*const size :
       {&HeadOptions::value_head_dim, &HeadOptions::rotary_dim}) {
    if (all.*size > 0 && own.beside(model).*size != all.*size) own.*size = all.*size;
  }
  return own;
}

std::int64_t HfModel::feed_forward_parameters(const HfLayer& layer) const {
  if (layer.feed_forward == FeedForward::none) return 0;
  const std::int64_t matrices = shape.matrices();
  if (layer.feed_forward == FeedForward::dense) {
    return matrices * hidden * ffn + (mlp_bias ? (matrices - 1) * ffn + hidden : 0);
  }
  const std::int64_t row = latent > 0 ? latent : hidden;
  std::int64_t sparse = hidden * num_experts +
                        matrices * (num_experts * expert_ffn * row + shared_ffn * hidden) +
                        2 * hidden * latent;
  if (shared_gate) sparse += hidden;
  if (expert_bias) sparse += num_experts * ((matrices - 1) * expert_ffn + hidden) + num_experts;
  if (router.has_choice_bias()) sparse += num_experts;
  return sparse;
}

std::int64_t HfModel::mixer_parameters(const HfLayer& layer) const {
  std::int64_t sum = has_mixer(layer.mixer, Mixer::attention) ? attention_parameters(layer) : 0;
  for (const Mixer linear : {Mixer::delta_net, Mixer::mamba}) {
    if (has_mixer(layer.mixer, linear)) sum += hf_linear_parameters(*this, linear);
  }
  return sum;
}

std::int64_t HfModel::layer_parameters(const HfLayer& layer) const {
  const std::int64_t branches = shape.parallel
                                    ? 1
                                    : (layer.mixer != Mixer::none ? 1 : 0) +
                                          (layer.feed_forward != FeedForward::none ? 1 : 0);
  return mixer_parameters(layer) + feed_forward_parameters(layer) + branches * shape.norms(hidden);
}

std::int64_t HfModel::num_parameters() const {
  const std::int64_t last_norm = shape.norm == NormKind::layer ? 2 * hidden : hidden;
  std::int64_t sum = (tied ? 1 : 2) * vocab * hidden + last_norm;
  for (const HfLayer& layer : layers) sum += layer_parameters(layer);
  return sum;
}

// Throws ScenarioError E1354: keys are missing, all of them at once.
void read_sizes(ForeignObject& config, const HfFamily& family, const std::string& file,
                HfModel& model) {
  HfRequired required(config);
  const HfDefaults& defaults = family.defaults;
  const HfKinds kinds = find_hf_kinds(config, family);
  if (family.one_branch && kinds.names.empty()) required.miss("hybrid_override_pattern");
  const auto listed = static_cast<std::int64_t>(family.one_branch ? kinds.names.size() : 0);
  model.num_layers = required.integer({"num_hidden_layers"}, kForeignDegree, listed);
  model.hidden = required.integer({"hidden_size"});
  const bool with_experts = has_experts(config, family);
  const bool is_shared = family.shared_alone && !with_experts;
  if (is_shared) (void)config.has("intermediate_size");  // Experts have it; there are none.
  model.ffn = required.integer({is_shared ? family.shared_width : "intermediate_size"},
                               kForeignSize, family.only_experts ? 1 : 0);
  model.heads = required.integer({"num_attention_heads"}, kForeignDegree, defaults.heads);
  model.vocab = required.integer({"vocab_size"}, kForeignSize, defaults.vocab);
  model.positions = required.integer({"max_position_embeddings"}, kForeignSize, defaults.positions);
  if (with_experts) read_experts(config, family, required, model);
  if (family.linear != Mixer::none) read_hf_linear(config, family, required, model);
  require_all(config, required, file, family.model_type);
  if (family.only_experts) model.ffn = model.expert_ffn;
  model.layers = read_hf_layers(config, family, model.num_layers, with_experts);
  model.prediction = read_hf_prediction(config, family, model.layers.back());
  if (!model.feeds_by(FeedForward::experts)) model.num_experts = 0;
}

HfModel read_hf_model(ForeignObject& config, const HfFamily& family, bool tied,
                      const std::string& file) {
  HfModel model;
  model.model_type = family.model_type;
  read_sizes(config, family, file, model);
  const HfDefaults& defaults = family.defaults;
  model.key_value_heads =
      config.integer("num_key_value_heads", kForeignDegree)
          .value_or(defaults.key_value_heads > 0 ? defaults.key_value_heads : model.heads);
  model.head_dim = defaults.head_dim > 0 ? defaults.head_dim : model.hidden / model.heads;
  for (const char* key : {"attention_head_dim", "head_dim"}) {
    if (const auto size = config.integer(key, kForeignSize)) model.head_dim = *size;
  }
  model.tied = config.truth("tie_word_embeddings").value_or(tied);
  model.norm_epsilon = family.norm_epsilon;
  for (const char* key :
       {"rms_norm_eps", "layer_norm_eps", "norm_eps", "layer_norm_epsilon", "layernorm_epsilon"}) {
    if (const auto epsilon = config.number(key)) model.norm_epsilon = *epsilon;
  }
  const bool bias = config.truth("attention_bias").value_or(false);
  model.query_bias = family.attention_bias || bias || config.truth("qkv_bias").value_or(false);
  model.output_bias = config.truth("attention_out_bias")
                          .value_or(bias && family.output_bias && !family.attention_bias);
  model.mlp_bias = config.truth("mlp_bias").value_or(false);
  model.output_gate = config.truth("attn_output_gate").value_or(family.output_gate);
  model.shape = read_hf_shape(config, model.model_type, model.hidden);
  if (config.truth("use_qk_norm").value_or(family.query_key_norm)) {
    const bool is_whole = config.written("qk_norm_type") == "\"per_layer\"";
    if (is_whole) (void)config.text("qk_norm_type");
    model.shape.query_key_norm = is_whole ? QueryKeyNorm::whole : family.norm_kind;
  }
  if (family.gpt_oss) {
    model.expert_bias = true;
    model.output_bias = true;
  }
  read_latent(config, model);
  pass_unscaled_values(config);
  read_rope(config, family, model);
  if (family.own != nullptr) family.own->read(config, model);
  return model;
}

}  // namespace shardsim
