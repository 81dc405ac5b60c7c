#include <map>
#include <string>

#include <catch2/catch.hpp>

#include "strategies/model/layer_options.hpp"
#include "strategies/model/make_model.hpp"

#include "scenarios/presets.hpp"
#include "scenarios/scenario.hpp"

#include "tests/scenarios/support.hpp"

using namespace shardsim;
using namespace shardsim::testing;

namespace {

ModelSpec preset_model(const std::string& model) {
  return loaded("{\"schema_version\": 1, \"model\": \"" + model +
                "\", \"system\": {\"preset\": \"dgx-h100\", \"nodes\": 1}, "
                "\"training\": {\"global_batch_size\": 8}}")
      .model;
}

// Gated DeltaNet: one projection for queries, keys, values, gates, rates and decays, a convolution,
// A_log, dt_bias, a norm's weight and the output.
std::int64_t count_delta_net(const ModelSpec& m) {
  const DeltaNetOptions& o = m.delta_net;
  const std::int64_t keys = o.key_heads * o.key_size;
  const std::int64_t values = o.value_heads * o.value_size;
  std::int64_t total = m.hidden_size * (keys + keys + values + values);  // in_proj_qkvz
  total += m.hidden_size * (o.value_heads + o.value_heads);              // in_proj_ba
  total += o.conv_kernel * (keys + keys + values);
  total += o.value_heads + o.value_heads + o.value_size;
  return total + values * m.hidden_size;
}

// Mamba-2: z, x, B, C and dt, a convolution with biases, A_log, D, dt_bias, a norm and the output.
std::int64_t count_mamba(const ModelSpec& m) {
  const MambaOptions& o = m.mamba;
  const std::int64_t inner = o.num_heads * o.head_size;
  const std::int64_t convolved = inner + 2 * o.num_groups * o.state_size;
  std::int64_t total = m.hidden_size * (inner + convolved + o.num_heads);  // in_proj
  total += o.conv_kernel * convolved + convolved;
  total += o.num_heads + o.num_heads + o.num_heads + (o.has_norm ? inner : 0);
  return total + inner * m.hidden_size;
}

std::int64_t count_attention(const ModelSpec& m, const LayerSpec& layer) {
  const std::int64_t h = m.hidden_size;
  const HeadOptions& own = layer.heads;
  const std::int64_t heads =
      own.num_attention_heads > 0 ? own.num_attention_heads : m.num_attention_heads;
  const std::int64_t groups = own.num_query_groups > 0 ? own.num_query_groups : m.num_query_groups;
  const std::int64_t head_dim = own.head_dim > 0 ? own.head_dim : m.head_dim;
  const std::int64_t value_dim = own.head_dim > 0 ? own.head_dim : m.value_head_dim;
  const std::int64_t a = head_dim * heads;
  const std::int64_t kv = head_dim * groups;
  std::int64_t total = 0;
  if (m.is_latent()) {
    const std::int64_t q = m.q_lora_rank;
    const std::int64_t r = m.kv_lora_rank;
    const std::int64_t n = m.num_attention_heads;
    const std::int64_t d = m.qk_nope_head_dim + m.qk_rope_head_dim;
    total += q > 0 ? q * h + q + n * d * q : n * d * h;  // q_a, its norm and q_b; or q
    total += (r + m.qk_rope_head_dim) * h + r;           // kv_a and its norm
    total += n * (m.qk_nope_head_dim + m.value_head_dim) * r + h * n * m.value_head_dim;
  } else {
    total += a * h + kv * h + h * value_dim * heads;  // query, key, output
    if (!own.keys_are_values) total += value_dim * groups * h;
  }
  if (m.query_key_norm == QueryKeyNorm::per_head) total += head_dim + head_dim;
  if (m.query_key_norm == QueryKeyNorm::whole) total += a + kv;
  if (m.query_key_value_bias) total += a + kv + kv;
  if (m.attention_out_bias) total += h;
  if (m.attention_output_gate) total += h * a;
  if (m.attention_head_gate) total += h * heads;
  if (layer.sinks) total += heads;
  return total;
}

// Gate, up and down; a squared ReLU has no gate.
std::int64_t count_mlp(const ModelSpec& m, std::int64_t row, std::int64_t width) {
  const std::int64_t gate = m.activation == Activation::squared_relu ? 0 : row * width;
  return gate + row * width + width * row;
}

std::int64_t count_experts(const ModelSpec& m) {
  std::int64_t total = m.num_experts * m.hidden_size;  // router
  const std::int64_t row = m.moe_latent_size > 0 ? m.moe_latent_size : m.hidden_size;
  if (m.moe_latent_size > 0) total += m.hidden_size * row + row * m.hidden_size;
  if (m.moe_router_logit_bias) total += m.num_experts;
  for (std::int64_t i = 0; i < m.num_experts; ++i) {
    total += count_mlp(m, row, m.moe_ffn_hidden_size);
    if (m.moe_expert_bias) total += 2 * m.moe_ffn_hidden_size + m.hidden_size;
  }
  if (m.moe_shared_gate) total += m.hidden_size;
  return total + count_mlp(m, m.hidden_size, m.moe_shared_ffn_hidden_size);
}

std::int64_t count_llama_layer(const ModelSpec& m, std::int64_t index) {
  const LayerSpec layer = m.layers.empty() ? LayerSpec{} : m.layer(index);
  const std::int64_t h = m.hidden_size;
  const std::int64_t norm = m.norm_kind == NormKind::layer ? h + h : h;  // gain, bias
  const bool has_one =
      m.parallel_block || layer.mixer == Mixer::none || layer.feed_forward == FeedForward::none;
  std::int64_t total = has_one ? norm : norm + norm;
  if (m.norm_placement == NormPlacement::sandwich) total += norm + norm;
  if (layer.mixer == Mixer::attention) total += count_attention(m, layer);
  if (layer.mixer == Mixer::delta_net) total += count_delta_net(m);
  if (layer.mixer == Mixer::mamba) total += count_mamba(m);
  if (layer.mixer == Mixer::attention_mamba) total += count_attention(m, layer) + count_mamba(m);
  if (layer.feed_forward == FeedForward::none) return total;
  const bool is_dense = m.num_experts == 0 || index < m.first_dense_layers ||
                        layer.feed_forward == FeedForward::dense;
  return total + (is_dense ? count_mlp(m, h, m.ffn_hidden_size) : count_experts(m));
}

}  // namespace

// The models' published parameter counts, against a count written here, weight by weight, and not
// the loader's formula. Source: tensor shapes of the checkpoints on Hugging Face.
TEST_CASE("M1: the models have their published numbers of parameters") {
  const auto count = [](const ModelSpec& m) {
    const std::int64_t h = m.hidden_size;
    const std::int64_t f = m.ffn_hidden_size;
    std::int64_t total = m.vocab_size * h;  // token embedding
    for (std::int64_t layer = 0; layer < m.num_layers; ++layer) {
      if (m.family == ModelFamily::gpt2) {
        total += 2 * (h + h);            // two layer norms: gain and bias
        total += h * 3 * h + 3 * h;      // query, key, value
        total += h * h + h;              // projection
        total += h * f + f + f * h + h;  // feed-forward
      } else {
        total += count_llama_layer(m, layer);
      }
    }
    total += m.family == ModelFamily::gpt2    ? m.max_position_embeddings * h + h + h
             : m.norm_kind == NormKind::layer ? h + h
                                              : h;
    return m.tied_embeddings ? total : total + m.vocab_size * h;
  };
  const std::map<std::string, std::int64_t> published = {
      {"gpt2", 124'439'808},
      {"gpt2-medium", 354'823'168},
      {"gpt2-large", 774'030'080},
      {"gpt2-xl", 1'557'611'200},
      {"llama2-7b", 6'738'415'616},
      {"llama2-13b", 13'015'864'320},
      {"llama2-70b", 68'976'648'192},
      {"llama3-8b", 8'030'261'248},
      {"llama3-70b", 70'553'706'496},
      {"llama3-405b", 405'853'388'800},
      {"mixtral-8x7b", 46'702'792'704},
      {"qwen3-0.6b", 596'049'920},
      {"qwen3-1.7b", 1'720'574'976},
      {"mixtral-8x22b", 140'620'634'112},
      {"llama3.2-3b", 3'212'749'824},
      {"smollm3-3b", 3'075'098'624},
      {"phi-4", 14'659'507'200},
      {"mistral-small-24b", 23'572'403'200},
      {"devstral-2-123b", 125'025'988'608},
      {"seed-oss-36b", 36'151'104'512},
      {"qwen3-4b", 4'022'468'096},
      {"qwen3-8b", 8'190'735'360},
      {"qwen3-14b", 14'768'307'200},
      {"qwen3-32b", 32'762'123'264},
      {"qwen3-coder-480b-a35b", 480'154'875'392},
      {"qwen3-30b-a3b", 30'532'122'624},
      {"qwen3-235b-a22b", 235'093'634'560},
      // Without the biases of the choice, which are not trained: one per expert and layer.
      {"ernie-4.5-21b-a3b", 21'825'437'888 - 27 * 64},
      {"ernie-4.5-300b-a47b", 299'484'163'264 - 51 * 64},
      {"ling-1t", 999'705'328'640 - 76 * 256},
      {"hunyuan-a13b", 80'393'183'232},
      {"minimax-m2", 228'689'764'864 - 62 * 256},
      {"glm-4.5-air", 106'852'251'264 - 45 * 128},
      {"glm-4.5", 352'797'829'024 - 89 * 160},
      {"deepseek-v3", 671'026'419'200 - 58 * 256},
      {"deepseek-v2", 235'741'434'880},
      {"deepseek-v2-lite", 15'706'484'224},
      {"moonlight-16b-a3b", 15'960'110'208 - 26 * 64},
      {"kimi-k2", 1'026'408'232'448 - 60 * 384},
      {"llama-4-scout", 107'769'861'120},
      {"llama-4-maverick", 400'711'848'960},
      {"gpt-oss-20b", 20'914'757'184},
      {"gpt-oss-120b", 116'829'156'672},
      {"gemma-2-27b", 27'227'128'320},
      {"gemma-3-4b", 3'880'263'168},
      {"gemma-3-12b", 11'766'034'176},
      {"gemma-3-27b", 27'009'346'304},
      {"olmo-2-32b", 32'234'279'936},
      {"olmo-3-7b", 7'298'011'136},
      {"olmo-3.1-32b", 32'233'522'176},
      {"exaone-4.0-32b", 32'003'216'384},
      {"command-a", 111'057'580'032},
      {"nemotron-4-340b", 341'029'195'776},
      {"qwen3-next-80b-a3b", 79'674'391'296},
      {"qwen3.5-27b", 26'895'998'464},
      {"qwen3.5-35b-a3b", 34'660'610'688},
      {"qwen3.5-397b-a17b", 396'346'350'336},
      {"nemotron-h-56b", 56'324'350'464},
      {"nemotron-3-nano", 31'577'940'288 - 23 * 128},
      {"granite-4.0-h-small", 32'207'337'984},
      {"gemma-4-31b", 30'697'345'340 - 60},  // A factor of each layer that nothing trains.
      {"mimo-v2-flash", 308'778'780'864 - 47 * 256},
      {"nemotron-3-super", 120'668'707'840 - 40 * 512},
      {"nemotron-3-ultra", 549'308'993'536 - 48 * 512},
      {"falcon-h1-34b", 33'642'221'312},
      // 96 heads in 33 layers with windows for 64, and a gate for each head.
      {"step-3.7-flash",
       195'832'712'256 - 42 * 288 + 33 * 2 * 4096 * 32 * 128 + 4096 * (12 * 64 + 33 * 96)},
  };
  for (const auto& [name, parameters] : published) {
    INFO(name);
    const ModelSpec model = preset_model(name);
    CHECK(count(model) == parameters);
    CHECK(num_parameters(model) == parameters);
  }
  // 671B with latent attention, which has a little less than the plain one that stands in for it.
  const ModelSpec deepseek = preset_model("deepseek-v3-like");
  CHECK(num_parameters(deepseek) == count(deepseek));
  CHECK(static_cast<double>(num_parameters(deepseek)) == Approx(671e9).epsilon(0.005));
  // Brown et al. 2020 print "175.0B" for a count they do not spell out.
  const ModelSpec gpt3 = preset_model("gpt3-175b");
  CHECK(num_parameters(gpt3) == count(gpt3));
  CHECK(static_cast<double>(num_parameters(gpt3)) == Approx(175.0e9).epsilon(0.005));
}

// Limits and memory estimates rest on the formula, training on the model's own table.
TEST_CASE("the formula counts the parameters of the models that are trained") {
  const auto built = [](const ModelSpec& m) {
    ModelOptions options;
    options.family = to_string(m.family);
    options.num_layers = m.num_layers;
    options.hidden_size = m.hidden_size;
    options.ffn_hidden_size = m.ffn_hidden_size;
    options.num_attention_heads = m.num_attention_heads;
    options.num_query_groups = m.num_query_groups;
    options.head_dim = m.head_dim;
    options.value_head_dim = m.value_head_dim;
    options.q_lora_rank = m.q_lora_rank;
    options.kv_lora_rank = m.kv_lora_rank;
    options.qk_nope_head_dim = m.qk_nope_head_dim;
    options.qk_rope_head_dim = m.qk_rope_head_dim;
    options.query_key_norm = m.query_key_norm;
    options.rotary_dim = m.rotary_dim;
    options.query_key_value_bias = m.query_key_value_bias;
    options.attention_out_bias = m.attention_out_bias;
    options.attention_output_gate = m.attention_output_gate;
    options.attention_head_gate = m.attention_head_gate;
    options.delta_net = m.delta_net;
    options.mamba = m.mamba;
    options.vocab_size = m.vocab_size;
    options.seq_len = m.seq_len;
    options.max_position_embeddings = m.max_position_embeddings;
    options.tied_embeddings = m.tied_embeddings;
    options.activation.kind = m.activation;
    options.mlp_bias = m.mlp_bias;
    options.norm = m.norm_kind;
    options.norm_placement = m.norm_placement;
    options.parallel_block = m.parallel_block;
    for (std::int64_t i = 0; i < m.num_layers && !m.layers.empty(); ++i) {
      const LayerSpec& layer = m.layer(i);
      options.layers.push_back({.mixer = layer.mixer,
                                .has_rotary = layer.rotary,
                                .has_sinks = layer.sinks,
                                .feed_forward = layer.feed_forward,
                                .heads = layer.heads});
    }
    if (m.num_experts > 0) {
      options.moe.num_experts = m.num_experts;
      options.moe.experts_per_token = m.num_experts_per_token;
      options.moe.ffn_hidden_size = m.moe_ffn_hidden_size;
      options.moe.latent_size = m.moe_latent_size;
      options.moe.shared_ffn_hidden_size = m.moe_shared_ffn_hidden_size;
      options.moe.first_dense_layers = m.first_dense_layers;
      options.moe.has_shared_gate = m.moe_shared_gate;
      options.moe.has_expert_bias = m.moe_expert_bias;
      options.moe.router.has_logit_bias = m.moe_router_logit_bias;
    }
    const auto model = make_model(options);
    std::int64_t total = 0;
    for (const ParameterSpec& parameter : model->parameters()) {
      total += parameter.shape.numel();
    }
    return total;
  };
  for (const PresetInfo& preset : list_builtin_presets()) {
    if (preset.folder == "models") {
      INFO(preset.name);
      const ModelSpec model = preset_model(preset.name);
      CHECK(built(model) == num_parameters(model));
    }
  }
  for (const char* name :
       {"mlp-ddp", "gpt-hsdp", "llama-zero3", "llama-clamped-swiglu-tp2-pp2",
        "llama-layer-norms-tp2-sp", "llama-parallel-block-biases-fsdp2-tp2",
        "llama-sandwich-norms-tp2-sp", "llama-squared-relu-experts-ep2-tp2-sp"}) {
    INFO(name);
    const ModelSpec model = load_scenario(std::string("scenarios/verify-") + name + ".json").model;
    CHECK(built(model) == num_parameters(model));
    ModelSpec tied = model;
    tied.tied_embeddings = model.family == ModelFamily::llama;
    CHECK(built(tied) == num_parameters(tied));
  }
}

TEST_CASE("an mlp counts its weights and biases") {
  ModelSpec m;
  m.family = ModelFamily::mlp;
  m.hidden_size = 3;
  m.ffn_hidden_size = 5;
  m.num_layers = 2;
  m.vocab_size = 4;
  // 3 -> 5 -> 5 -> 4
  CHECK(num_parameters(m) == (3 * 5 + 5) + (5 * 5 + 5) + (5 * 4 + 4));
}
