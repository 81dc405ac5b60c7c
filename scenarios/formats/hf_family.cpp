#include "scenarios/formats/hf_family.hpp"

#include <algorithm>
#include <array>

namespace shardsim {

namespace {

// Defaults of Step3p7TextConfig, transformers 5; versions differ in their keys alone.
constexpr HfFamily step(const char* model_type) {
  return {.model_type = model_type,
          .experts = true,
          .query_key_norm = true,
          .shared_width = "share_expert_dim",
          .shared_gate = false,
          .norm_epsilon = 1e-5,
          .defaults = {.heads = 64,
                       .key_value_heads = 8,
                       .head_dim = 128,
                       .vocab = 128815,
                       .positions = 128000},
          .own = &kHfStepKeys};
}

constexpr HfFamily mimo(const char* model_type) {
  return {.model_type = model_type,
          .experts = true,
          .output_bias = false,
          .score = RouterScore::sigmoid,
          .choice_bias = true,
          .norm_epsilon = 1e-5,
          .own = &kHfMimoKeys};
}

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
    // Attention is read as DeepSeek-V3's; its indexer is refused by its keys.
    HfFamily{.model_type = "deepseek_v32",
             .experts = true,
             .score = RouterScore::sigmoid,
             .choice_bias = true},
    HfFamily{.model_type = "kimi_k2",
             .experts = true,
             .score = RouterScore::sigmoid,
             .choice_bias = true},
    // As deepseek_v32.
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
    // Defaults of Gemma4TextConfig, transformers 5.
    HfFamily{.model_type = "gemma4_text",
             .tied = true,
             .defaults = {.heads = 8,
                          .key_value_heads = 4,
                          .head_dim = 256,
                          .vocab = 262144,
                          .positions = 131072},
             .own = &kHfGemma4Keys},
    HfFamily{.model_type = "olmo2"},
    HfFamily{.model_type = "olmo3"},
    HfFamily{.model_type = "exaone4"},
    HfFamily{.model_type = "cohere2", .tied = true},
    HfFamily{.model_type = "nemotron", .rotary_part = 0.5},
    HfFamily{.model_type = "granite"},
    HfFamily{.model_type = "qwen3_next",
             .experts = true,
             .query_key_norm = true,
             .rotary_part = 0.25,
             .output_gate = true,
             .linear = Mixer::delta_net},
    HfFamily{.model_type = "qwen3_5_text",
             .query_key_norm = true,
             .rotary_part = 0.25,
             .output_gate = true,
             .linear = Mixer::delta_net},
    HfFamily{.model_type = "qwen3_5_moe_text",
             .experts = true,
             .query_key_norm = true,
             .rotary_part = 0.25,
             .output_gate = true,
             .linear = Mixer::delta_net,
             .only_experts = true},
    HfFamily{.model_type = "nemotron_h",
             .experts = true,
             .score = RouterScore::sigmoid,
             .choice_bias = true,
             .rotary = false,
             .linear = Mixer::mamba,
             .one_branch = true,
             .shared_width = "moe_shared_expert_intermediate_size",
             .shared_gate = false},
    HfFamily{.model_type = "granitemoehybrid",
             .experts = true,
             .rotary = false,
             .linear = Mixer::mamba,
             .one_norm = true,
             .shared_width = "shared_intermediate_size",
             .shared_gate = false,
             .shared_alone = true},
    // Defaults of FalconH1Config.
    HfFamily{.model_type = "falcon_h1",
             .rope_theta = 1e5,
             .linear = Mixer::mamba,
             .both_mixers = true,
             .norm_epsilon = 1e-5,
             .defaults = {.heads = 32, .key_value_heads = 8, .vocab = 128000, .positions = 8192},
             .own = &kHfFalconKeys},
    // Defaults of Llama4TextConfig, transformers 5.
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
    HfFamily{
        .model_type = "bailing_moe", .experts = true, .norm_epsilon = 1e-5, .own = &kHfLingKeys},
    // Defaults of inclusionAI's BailingMoeV2Config.
    HfFamily{.model_type = "bailing_moe_v2",
             .experts = true,
             .query_key_norm = true,
             .score = RouterScore::sigmoid,
             .choice_bias = true,
             .defaults = {.head_dim = 128},
             .own = &kHfBailingKeys},
    HfFamily{.model_type = "hunyuan_v1_moe",
             .experts = true,
             .query_key_norm = true,
             .norm_epsilon = 1e-5,
             .own = &kHfHunyuanKeys},
    mimo("mimo_v2"),
    mimo("mimo_v2_flash"),
    step("step3p5"),
    step("step3p7"),
    HfFamily{.model_type = "gpt_oss", .experts = true, .attention_bias = true, .gpt_oss = true},
};

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

}  // namespace shardsim
