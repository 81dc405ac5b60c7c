#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "scenarios/field.hpp"
#include "scenarios/formats/emit.hpp"
#include "scenarios/load.hpp"
#include "scenarios/presets.hpp"

#include "tests/exchange/exchange_fixture.hpp"

// torchtitan's models cannot say some fields, which are named: each field of a model is decided.
namespace shardsim::test {

namespace {

Scenario trained_by(const std::string& model, const std::string& parallelism = "",
                    const std::string& training = "") {
  return load_scenario_text(
      R"({"schema_version": 1, "name": "parts", "model": {)" + model +
          R"(}, "system": {"preset": "dgx-h100", "nodes": 1}, "parallelism": {)" + parallelism +
          R"(}, "training": {"global_batch_size": 8)" + training + "}}",
      "test.json");
}

const std::string kPlainLlama = R"("family": "llama", "num_layers": 2, "hidden_size": 32,
    "ffn_hidden_size": 64, "num_attention_heads": 4, "num_query_groups": 4, "vocab_size": 64,
    "seq_len": 16)";
const std::string kWithExperts = R"(, "num_experts": 4, "num_experts_per_token": 2,
    "moe_ffn_hidden_size": 16)";
const std::string kWithMamba = R"(, "layers": [{"mixer": "mamba"}, {}],
    "mamba_num_heads": 4, "mamba_head_dim": 8, "mamba_num_groups": 2, "mamba_state_size": 8)";
const std::string kWithLatents =
    R"(, "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8,
    "value_head_dim": 8)";
const std::string kGptOss = kWithExperts + R"(, "layers": [{"sinks": true, "repeats": 2}],
    "moe_expert_bias": true, "activation": "clamped_swiglu", "swiglu_limit": 7)";
const std::string kQwen35 = R"(, "layers": [{"mixer": "delta_net"}, {}], "norm_zero_centred": true,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8,
    "linear_value_head_dim": 8, "query_key_norm": "per_head", "attention_output_gate": true)";

// Fields that no model of theirs has, each with a model and words of what is said of it.
struct RefusedFields {
  std::vector<std::string> fields;
  std::string model;
  std::string words;
};

const std::vector<RefusedFields> kRefusedFields = {
    {{"moe_latent_size"}, kWithExperts + R"(, "moe_latent_size": 8)", "moe_latent_size"},
    {{"attention_head_gate"}, R"(, "attention_head_gate": true)", "attention_head_gate"},
    {{"layers[].num_attention_heads", "layers[].head_dim"},
     R"(, "layers": [{"num_attention_heads": 8, "head_dim": 4}, {}])",
     "layers[].num_attention_heads"},
    {{"layers[].num_query_groups"}, R"(, "layers": [{"num_query_groups": 2}, {}])", "heads of a"},
    {{"layers[].value_head_dim"}, R"(, "layers": [{"value_head_dim": 4}, {}])", "heads of a layer"},
    {{"layers[].rotary_dim"}, R"(, "layers": [{"rotary_dim": 4}, {}])", "heads of a layer"},
    {{"layers[].keys_are_values"},
     R"(, "layers": [{"keys_are_values": true}, {}])",
     "layers[].keys_are_values"},
    {{"layers[].chunk_size"},
     R"(, "layers": [{"attention": "chunked", "chunk_size": 8}, {}])",
     "layers[].chunk_size"},
    {{"layers[].rotary"}, R"(, "layers": [{"rotary": false}, {}])", "layers[].rotary"},
    {{"mamba_num_heads", "mamba_head_dim", "mamba_num_groups", "mamba_state_size",
      "mamba_chunk_size", "mamba_conv_kernel", "mamba_norm"},
     kWithMamba,
     "layers of Mamba-2"},
    {{"mamba_z_scale"}, kWithMamba + R"(, "mamba_z_scale": 2)", "mamba_z_scale"},
    {{"mamba_x_scale"}, kWithMamba + R"(, "mamba_x_scale": 2)", "factors within Mamba-2"},
    {{"mamba_b_scale"}, kWithMamba + R"(, "mamba_b_scale": 2)", "factors within Mamba-2"},
    {{"mamba_c_scale"}, kWithMamba + R"(, "mamba_c_scale": 2)", "factors within Mamba-2"},
    {{"mamba_dt_scale"}, kWithMamba + R"(, "mamba_dt_scale": 2)", "factors within Mamba-2"},
    {{"mamba_output_scale"}, kWithMamba + R"(, "mamba_output_scale": 2)", "factors within Mamba-2"},
    {{"norm_placement"}, R"(, "norm_placement": "sandwich")", "norm_placement"},
    {{"norm_kind"}, R"(, "norm_kind": "layer_norm")", "norm_kind"},
    {{"parallel_block"}, R"(, "parallel_block": true)", "parallel_block"},
    {{"attention_logit_cap"}, R"(, "attention_logit_cap": 30)", "attention_logit_cap"},
    {{"final_logit_cap"}, R"(, "final_logit_cap": 30)", "final_logit_cap"},
    {{"embedding_scale"}, R"(, "embedding_scale": 2)", "embedding_scale"},
    {{"residual_scale"}, R"(, "residual_scale": 2)", "residual_scale"},
    {{"logit_scale"}, R"(, "logit_scale": 2)", "logit_scale"},
    {{"query_temperature_scale", "query_temperature_floor"},
     R"(, "layers": [{"rotary": false}, {}], "query_temperature_scale": 0.1,
        "query_temperature_floor": 8)",
     "query_temperature_scale"},
    {{"moe_weight_on_input"},
     R"(, "num_experts": 4, "num_experts_per_token": 1, "moe_ffn_hidden_size": 16,
        "moe_weight_on_input": true)",
     "moe_weight_on_input"},
    {{"value_norm"}, R"(, "value_norm": true)", "value_norm"},
    {{"value_scale"}, R"(, "value_scale": 2)", "value_scale"},
    {{"mlp_gate_scale"}, R"(, "mlp_gate_scale": 2)", "mlp_gate_scale"},
    {{"mlp_output_scale"}, R"(, "mlp_output_scale": 2)", "mlp_output_scale"},
    {{"moe_router_group_score"},
     kWithExperts + R"(, "moe_router_num_groups": 2, "moe_router_group_topk": 1,
        "moe_router_group_score": "maximum")",
     "moe_router_group_score"},
    {{"moe_capacity_factor"},
     kWithExperts + R"(, "moe_capacity_factor": 2)",
     "moe_capacity_factor"},
    {{"moe_aux_loss_coeff"}, kWithExperts + R"(, "moe_aux_loss_coeff": 0.1)", "moe_aux_loss_coeff"},
    {{"moe_z_loss_coeff"}, kWithExperts + R"(, "moe_z_loss_coeff": 0.1)", "moe_z_loss_coeff"},
};

// Fields that some model of theirs has, and the file below torchtitan/models.
struct SaidFields {
  std::vector<std::string> fields;
  std::string file;
};

const std::vector<SaidFields> kSaidFields = {
    {{"num_layers", "hidden_size", "vocab_size", "seq_len", "tied_embeddings", "layers_cycle",
      "layers[].repeats"},
     "common/decoder.py: Decoder.Config, layer by layer"},
    {{"ffn_hidden_size", "mlp_bias"}, "common/feed_forward.py: w1, w2, w3 of Linear.Config"},
    {{"num_attention_heads", "num_query_groups", "head_dim", "query_key_norm"},
     "common/attention.py: GQAttention.Config"},
    {{"query_key_value_bias", "attention_out_bias"}, "common/attention.py: Linear.Config's bias"},
    {{"norm_epsilon"}, "common/nn_modules.py: RMSNorm"},
    {{"rope_theta", "layers[].rope_theta"}, "common/rope.py: theta of each layer's RoPE.Config"},
    {{"layers[].attention", "layers[].window_size"},
     "common/attention.py: VarlenAttention.Config.window_size"},
    {{"layers[].sinks", "swiglu_limit", "moe_expert_bias"}, "gpt_oss/model.py and moe.py"},
    {{"layers[].feed_forward", "first_dense_layers"}, "qwen3/model.py: moe or feed_forward"},
    {{"layers[].mixer", "linear_conv_kernel", "linear_key_head_dim", "linear_num_key_heads",
      "linear_num_value_heads", "linear_value_head_dim"},
     "qwen3_5/gdn.py: GatedDeltaNet.Config"},
    {{"attention_output_gate", "rotary_dim", "norm_zero_centred"}, "qwen3_5/model.py"},
    {{"kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "value_head_dim",
      "attention_scale"},
     "deepseek_v3/model.py: Attention.Config"},
    {{"mtp_num_layers", "mtp_loss_scaling_factor"}, "deepseek_v3/mtp.py"},
    {{"num_experts", "num_experts_per_token", "moe_ffn_hidden_size", "num_shared_experts",
      "moe_shared_ffn_hidden_size", "moe_router_score", "moe_router_normalised",
      "moe_router_scaling_factor", "moe_router_num_groups", "moe_router_group_topk",
      "moe_router_bias_update_rate", "moe_router_logit_bias"},
     "common/moe.py: TokenChoiceTopKRouter, MoE.load_balance_coeff"},
    {{"moe_shared_gate"}, "common/feed_forward.py: SigmoidGatedFeedForward"},
    {{"activation"}, "common/feed_forward.py and gpt_oss/moe.py; others are refused"},
};

// Fields that are no part of what is trained.
const std::vector<std::string> kNoPart = {"preset",
                                          "source",
                                          "not_modelled",
                                          "family",                   // RefusedFields unless llama.
                                          "max_position_embeddings",  // gpt2 has it.
                                          "moe_routing",
                                          "moe_skew",
                                          "moe_popularity_file"};

std::string joined_words(const Scenario& scenario) {
  return fmt::format("{}", fmt::join(unlike_torchtitan(scenario), "; "));
}

}  // namespace

TEST_CASE("each field of a model is refused for torchtitan, or has its file there", "[exchange]") {
  std::map<std::string, int> decided;
  for (const RefusedFields& each : kRefusedFields) {
    for (const std::string& field : each.fields) ++decided[field];
  }
  for (const SaidFields& each : kSaidFields) {
    for (const std::string& field : each.fields) ++decided[field];
  }
  for (const std::string& field : kNoPart) ++decided[field];
  const std::string prefix = "model.";
  for (const Field& field : field_table()) {
    if (field.path.rfind(prefix, 0) != 0) continue;
    INFO(field.path << ": decide whether torchtitan's models have it");
    CHECK(decided[field.path.substr(prefix.size())] == 1);
    decided.erase(field.path.substr(prefix.size()));
  }
  for (const auto& [name, times] : decided) {
    INFO("no field has the name " << name);
    CHECK(times == 0);
  }
}

TEST_CASE("what no model of torchtitan has is named, with its field", "[exchange]") {
  CHECK(joined_words(trained_by(kPlainLlama)).empty());
  for (const RefusedFields& each : kRefusedFields) {
    const std::string words = joined_words(trained_by(kPlainLlama + each.model));
    INFO(each.model << ": " << words);
    CHECK(contains(words, each.words));
    CHECK(contains(words, "torchtitan's models have no "));
  }
}

TEST_CASE("a model of torchtitan has all parts together, or the nearest is named", "[exchange]") {
  for (const std::string& model :
       {kGptOss, kWithLatents + R"(, "mtp_num_layers": 1)",
        kWithExperts + R"(, "moe_shared_gate": true, "num_shared_experts": 1,
            "query_key_norm": "per_head")",
        std::string(R"(, "mlp_bias": true, "attention_out_bias": true)")}) {
    INFO(model);
    CHECK(joined_words(trained_by(kPlainLlama + model)).empty());
  }
  CHECK(joined_words(trained_by(kPlainLlama + kQwen35)) ==
        "torchtitan's qwen3_5 always has a vision encoder, which is not planned");
  struct Apart {
    std::string model;
    std::string words;
  };
  const Apart all[] = {
      {kGptOss + R"(, "query_key_norm": "per_head")",
       "its nearest, gpt_oss, has no norms of queries and keys (query_key_norm)"},
      {kGptOss + R"(, "num_shared_experts": 1)",
       "its nearest, gpt_oss, has no shared experts (moe_shared_ffn_hidden_size)"},
      {kWithExperts + R"(, "layers": [{"sinks": true, "repeats": 2}], "moe_expert_bias": true)",
       "its nearest, gpt_oss, always has a clamped activation (swiglu_limit)"},
      {R"(, "layers": [{"sinks": true}, {}])", "llama3, has no sinks (model.layers[].sinks)"},
      {R"(, "rotary_dim": 4)", "turns whole heads (rotary_dim)"},
      {kWithExperts + R"(, "attention_output_gate": true)", "has no gates of attention's output"},
      {kWithLatents + R"(, "norm_zero_centred": true)",
       "its nearest, deepseek_v3, has weights of norms around one (norm_zero_centred)"},
      // Beside a part that no model has.
      {kWithExperts + R"(, "moe_aux_loss_coeff": 0.1, "norm_zero_centred": true)",
       "torchtitan's models have no losses of the router (moe_aux_loss_coeff, moe_z_loss_coeff); "},
  };
  for (const Apart& each : all) {
    const std::string words = joined_words(trained_by(kPlainLlama + each.model));
    INFO(each.model << ": " << words);
    CHECK(contains(words, "torchtitan has no model with these parts together: its nearest, "));
    CHECK(contains(words, each.words));
  }
}

TEST_CASE("presets that a model of torchtitan has are these", "[exchange]") {
  std::vector<std::string> said;
  for (const std::string& name : builtin_preset_names("models")) {
    if (joined_words(trained_by(R"("preset": ")" + name + "\"")).empty()) said.push_back(name);
  }
  // Qwen3's and Mixtral's mixtures have a loss that balances experts, which torchtitan has not.
  CHECK(said == std::vector<std::string>{"deepseek-v2-lite",
                                         "deepseek-v3",
                                         "deepseek-v3-like",
                                         "devstral-2-123b",
                                         "gpt-oss-120b",
                                         "gpt-oss-20b",
                                         "hunyuan-a13b",
                                         "kimi-k2",
                                         "llama2-13b",
                                         "llama2-70b",
                                         "llama2-7b",
                                         "llama3-405b",
                                         "llama3-70b",
                                         "llama3-8b",
                                         "llama3.2-3b",
                                         "mistral-small-24b",
                                         "moonlight-16b-a3b",
                                         "phi-4",
                                         "qwen3-0.6b",
                                         "qwen3-1.7b",
                                         "qwen3-14b",
                                         "qwen3-32b",
                                         "qwen3-4b",
                                         "qwen3-8b",
                                         "qwen3-coder-480b-a35b",

                                         "seed-oss-36b"});
}

TEST_CASE("families, dropout and splits that torchtitan refuses are named", "[exchange]") {
  CHECK(contains(joined_words(trained_by(R"("preset": "gpt2")")), "no models of family gpt2"));
  CHECK(contains(joined_words(trained_by(kPlainLlama, "", R"(, "hidden_dropout": 0.1)")),
                 "no dropout"));
  const std::string few_groups = R"("family": "llama", "num_layers": 2, "hidden_size": 32,
      "ffn_hidden_size": 64, "num_attention_heads": 4, "num_query_groups": 2, "vocab_size": 64,
      "seq_len": 16)";
  const std::string tied = kPlainLlama + R"(, "tied_embeddings": true)";
  CHECK(joined_words(trained_by(tied, R"("tp": 2)")).empty());
  CHECK(contains(joined_words(trained_by(tied, R"("pp": 2)")), "--fix pp=1"));
  const std::string depths = kPlainLlama + kWithLatents + R"(, "mtp_num_layers": 1)";
  CHECK(joined_words(trained_by(depths, R"("tp": 2)")).empty());
  CHECK(contains(joined_words(trained_by(depths, R"("pp": 2)")), "refuses mtp_num_layers"));
  CHECK(contains(joined_words(trained_by(depths, R"("cp": 2)")), "refuses mtp_num_layers"));
  struct Split {
    std::string model;
    std::string borne;  // Splits that torchtitan bears, and some that it does not.
    std::string refused;
    std::string words;
  };
  const std::string window = R"(, "layers": [{"attention": "sliding", "window_size": 4}, {}])";
  const std::string windows = R"(, "layers": [
      {"attention": "sliding", "window_size": 4, "sinks": true},
      {"attention": "sliding", "window_size": 6, "sinks": true}])";
  const Split splits[] = {
      {kPlainLlama + window, R"("tp": 2)", R"("cp": 2)", "alone, and of one size"},
      {kPlainLlama + windows, R"("tp": 2)", R"("cp": 2)", "alone, and of one size"},
      {kPlainLlama + kQwen35, R"("pp": 2)", R"("cp": 2)", "qwen3_5 has no context parallelism"},
      {kPlainLlama + R"(, "mlp_bias": true)", R"("cp": 2)", R"("tp": 2)", "biases behind"},
      {kPlainLlama + kWithExperts + R"(, "num_shared_experts": 1, "moe_shared_gate": true)",
       R"("ep": 2)", R"("tp": 2, "sequence_parallel": true)",
       "shards moe_shared_gate in qwen3_5 alone"},
      {kPlainLlama + kWithExperts, R"("ep": 2)", R"("ep": 2, "etp": 2)", "no slices of experts"},
      {few_groups, R"("tp": 2)", R"("tp": 4)", "tp to divide key and value heads, which are 2"}};
  for (const Split& each : splits) {
    INFO(each.model);
    CHECK_FALSE(contains(joined_words(trained_by(each.model, each.borne)), each.words));
    CHECK(contains(joined_words(trained_by(each.model, each.refused)), each.words));
  }
  CHECK(contains(joined_words(trained_by(kPlainLlama + kWithExperts +
                                         R"(, "moe_router_num_groups": 4,
                                              "moe_router_group_topk": 2)")),
                 "groups have two experts or more"));
}

}  // namespace shardsim::test
