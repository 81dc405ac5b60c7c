#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "strategies/model/make_model.hpp"

#include "scenarios/scenario.hpp"

#include "tests/exchange/exchange_fixture.hpp"

// Llama 4 and Step from files of Hugging Face: what they have under keys of their own.
namespace shardsim::test {

namespace {

Imported import_config_text(const std::string& text, bool approximate = false) {
  const TemporaryFolder folder;
  write(folder / "config.json", text);
  std::vector<std::string> arguments = {"hf", folder / "config.json"};
  if (approximate) arguments.emplace_back("--approximate");
  return import_file(arguments);
}

Imported import_llama4(const std::string& more, bool approximate = false) {
  return import_config_text(
      R"({"model_type": "llama4_text", "hidden_size": 64, "intermediate_size": 96,
    "intermediate_size_mlp": 160, "vocab_size": 100, "num_attention_heads": 4, "head_dim": 16,
    "num_key_value_heads": 2, "num_hidden_layers": 7, "num_local_experts": 4,
    "num_experts_per_tok": 1, "max_position_embeddings": 64)" +
          more + "}",
      approximate);
}

// e: experts, d: a dense MLP.
std::string expert_letters_of(const ModelSpec& model) {
  std::string letters;
  for (std::int64_t i = 0; i < model.num_layers; ++i) letters += model.has_experts(i) ? 'e' : 'd';
  return letters;
}

// c: a chunk with rotary positions, n: everything without them, f: everything with them.
std::string chunk_letters_of(const ModelSpec& model) {
  std::string letters;
  for (std::int64_t i = 0; i < model.num_layers; ++i) {
    const LayerSpec& layer = model.layer(i);
    letters += layer.chunk_size > 0 && layer.rotary ? 'c' : layer.rotary ? 'f' : 'n';
  }
  return letters;
}

std::string refusal_of_file(const std::string& text) {
  const TemporaryFolder folder;
  write(folder / "config.json", text);
  const Printed printed = shardsim({"import", "hf", folder / "config.json"});
  CHECK(printed.exit_code == 2);
  CHECK(printed.out.empty());
  return printed.err;
}

// With the keys of a checkpoint of Step.
std::string step_config(const std::string& more) {
  return R"({"model_type": "step3p5", "hidden_size": 4096, "intermediate_size": 11264,
    "vocab_size": 128896, "num_attention_heads": 64, "num_attention_groups": 8, "head_dim": 128,
    "num_hidden_layers": 4, "moe_num_experts": 288, "moe_top_k": 8, "moe_intermediate_size": 1280,
    "share_expert_dim": 1280, "max_position_embeddings": 65536, "sliding_window": 512,
    "layer_types": ["full_attention", "sliding_attention", "sliding_attention",
                    "sliding_attention", "full_attention"], "num_nextn_predict_layers": 1)" +
         more + "}";
}

}  // namespace

TEST_CASE("Llama 4 Maverick is imported, with every second layer dense", "[exchange]") {
  const Imported imported =
      import_file({"hf", kData + "llama-4-maverick.config.json", "--gpus", "256"});
  const ModelSpec& model = imported.scenario.model;
  CHECK(num_parameters(model) == 400711848960);
  CHECK(contains(imported.printed.err, "400711848960 parameters"));
  CHECK(imported.scenario.warnings.empty());
  CHECK(model.layers_with_experts() == 24);
  CHECK_FALSE(model.has_experts(0));
  CHECK(model.has_experts(47));
  CHECK(model.ffn_hidden_size == 16384);
  CHECK(model.moe_ffn_hidden_size == 8192);
  CHECK(model.moe_shared_ffn_hidden_size == 8192);
  CHECK(model.query_key_norm == QueryKeyNorm::none);
  CHECK(model.query_temperature_scale == 0.1);
  CHECK(model.query_temperature_floor == 8192);
  CHECK(model.moe_router_score == RouterScore::sigmoid);
  CHECK_FALSE(model.moe_router_normalised);
  CHECK(model.moe_weight_on_input);
  CHECK(model.moe_aux_loss_coeff == 0.0);  // transformers does not read its own key.
  CHECK(chunk_letters_of(model).substr(40) == "cccncccn");
  CHECK(model.layer(0).chunk_size == 8192);
}

TEST_CASE("Llama 4 Scout has norms without weights, and experts everywhere", "[exchange]") {
  const Imported imported = import_config_text(
      R"({"model_type": "llama4", "text_config": {"model_type": "llama4_text",
      "attention_bias": false, "attention_chunk_size": 8192, "attn_scale": 0.1,
      "attn_temperature_tuning": 4, "floor_scale": 8192, "for_llm_compressor": false,
      "head_dim": 128, "hidden_act": "silu", "hidden_size": 5120, "interleave_moe_layer_step": 1,
      "intermediate_size": 8192, "intermediate_size_mlp": 16384, "no_rope_layers": [],
      "max_position_embeddings": 10485760, "num_attention_heads": 40, "num_experts_per_tok": 1,
      "num_hidden_layers": 48, "num_key_value_heads": 8, "num_local_experts": 16,
      "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "router_aux_loss_coef": 0.001,
      "router_jitter_noise": 0.0, "use_qk_norm": true, "vocab_size": 202048},
      "tie_word_embeddings": false})");
  const ModelSpec& model = imported.scenario.model;
  CHECK(num_parameters(model) == 107769861120);
  CHECK(contains(imported.printed.err, "107769861120 parameters"));
  CHECK(imported.scenario.warnings.empty());
  CHECK(model.query_key_norm == QueryKeyNorm::weightless);
  CHECK(model.query_temperature_scale == 0.1);
  CHECK(model.layers_with_experts() == 48);
  CHECK(chunk_letters_of(model).substr(0, 8) == "cccncccn");
  CHECK(contains(imported.printed.err, "ignored    text_config.router_aux_loss_coef"));
}

TEST_CASE("Llama 4's rules of layers have the phases of transformers", "[exchange]") {
  const auto model_of = [](const std::string& more) { return import_llama4(more).scenario.model; };
  CHECK(expert_letters_of(model_of("")) == "eeeeeee");
  CHECK(expert_letters_of(model_of(R"(, "interleave_moe_layer_step": 2)")) == "dededed");
  CHECK(expert_letters_of(model_of(R"(, "interleave_moe_layer_step": 3)")) == "ddedded");
  CHECK(expert_letters_of(
            model_of(R"(, "interleave_moe_layer_step": 5, "moe_layers": [2, 3, 6])")) == "ddeedde");
  CHECK(expert_letters_of(model_of(R"(, "moe_layers": [2, 3, 4, 5, 6])")) == "ddeeeee");
  CHECK(chunk_letters_of(model_of("")) == "cccnccc");
  CHECK(chunk_letters_of(model_of(R"(, "no_rope_layer_interval": 2)")) == "cncncnc");
  CHECK(chunk_letters_of(model_of(R"(, "no_rope_layers": [0, 1, 1, 1, 1, 1, 0])")) == "ncccccn");
  CHECK(chunk_letters_of(model_of(R"(, "layer_types": ["full_attention", "full_attention",
    "full_attention", "full_attention", "full_attention", "full_attention", "chunked_attention"])")) ==
        "fffnffc");
  CHECK(model_of("").layer(0).chunk_size == 8192);
  CHECK(model_of(R"(, "attention_chunk_size": 32)").layer(0).chunk_size == 32);
  CHECK(model_of("").rope_theta == 500000.0);
  CHECK(model_of("").norm_epsilon == 1e-5);
}

TEST_CASE("Llama 4's temperature is as its file has it, and only where it acts", "[exchange]") {
  const auto model_of = [](const std::string& more) { return import_llama4(more).scenario.model; };
  CHECK(model_of("").query_temperature_scale == 0.1);
  CHECK(model_of(R"(, "attn_temperature_tuning": true)").query_temperature_scale == 0.1);
  CHECK(model_of(R"(, "attn_temperature_tuning": 4)").query_temperature_scale == 0.1);
  CHECK(model_of(R"(, "attn_temperature_tuning": 0)").query_temperature_scale == 0.0);
  CHECK(model_of(R"(, "attn_temperature_tuning": false)").query_temperature_scale == 0.0);
  const ModelSpec other = model_of(R"(, "attn_scale": 0.2, "floor_scale": 32.0)");
  CHECK(other.query_temperature_scale == 0.2);
  CHECK(other.query_temperature_floor == 32);
  const Imported all_turn = import_llama4(R"(, "no_rope_layers": [1, 1, 1, 1, 1, 1, 1])");
  CHECK(all_turn.scenario.model.query_temperature_scale == 0.0);
  CHECK(all_turn.scenario.warnings.empty());
}

TEST_CASE("What a scenario cannot say of Llama 4 is refused by name", "[exchange]") {
  const std::string start = R"({"model_type": "llama4_text", "hidden_size": 64, "vocab_size": 100,
    "intermediate_size": 96, "num_hidden_layers": 2, "num_local_experts": 4,
    "max_position_embeddings": 64, )";
  CHECK(contains(refusal_of_file(start + R"("num_experts_per_tok": 2})"),
                 "num_experts_per_tok 2: weights on the inputs of several experts"));
  const std::string one = start + R"("num_experts_per_tok": 1, )";
  CHECK(contains(refusal_of_file(one + R"("moe_layers": []})"), "no layer has the experts"));
  CHECK(contains(refusal_of_file(one + R"("attention_chunk_size": null})"),
                 "attention_chunk_size null: chunks without a size"));
}

TEST_CASE("Step 3.7 Flash is imported, and its prediction is left out by size", "[exchange]") {
  const Imported imported =
      import_file({"hf", kData + "step-3.7-flash.config.json", "--gpus", "64"});
  const ModelSpec& model = imported.scenario.model;
  // With the biases of the choice, which nothing trains: one per expert and layer with experts.
  CHECK(contains(imported.printed.err, "195832712256 parameters"));
  CHECK(num_parameters(model) == 195832712256 - 42 * 288);
  CHECK(imported.scenario.warnings.empty());
  CHECK(model.first_dense_layers == 3);
  CHECK(model.norm_zero_centred);
  CHECK(model.query_key_norm == QueryKeyNorm::per_head);
  CHECK(model.moe_router_score == RouterScore::sigmoid);
  CHECK(model.moe_router_normalised);
  CHECK(model.moe_router_scaling_factor == 3.0);
  CHECK(model.moe_router_bias_update_rate > 0.0);
  CHECK(model.moe_shared_ffn_hidden_size == 1280);
  CHECK(model.layer(0).window_size == 0);
  CHECK(model.layer(1).window_size == 512);
  CHECK(model.mtp_num_layers == 0);
  // For each of 3 depths a projection, three norms, attention with its norms, and a dense MLP.
  CHECK(contains(imported.printed.err, "left out: 742454016 parameters and 4652531712 FLOPs"));
  CHECK(contains(imported.printed.err, "needs you  attention_other_setting"));
}

TEST_CASE("A checkpoint of Step has heads of two kinds, and a gate for each", "[exchange]") {
  const std::string router = R"(, "use_moe_router_bias": true, "moe_layers_enum": "1,3",
    "moe_router_activation": "sigmoid", "need_fp32_gate": true, "norm_expert_weight": true)";
  const std::string heads =
      router + R"(, "use_head_wise_attn_gate": true, "rope_theta": [5e6, 1e4, 1e4, 1e4, 5e6],
    "partial_rotary_factors": [0.5, 1, 1, 1, 0.5],
    "attention_other_setting": {"attention_type": "sliding_attention", "num_attention_heads": 96,
                                "num_attention_groups": 8, "head_dim": 128})";
  const Imported imported = import_config_text(step_config(heads));
  const ModelSpec& checkpoint = imported.scenario.model;
  INFO(imported.printed.err);
  CHECK(checkpoint.attention_head_gate);
  CHECK(checkpoint.rotary_dim == 64);
  CHECK(checkpoint.heads_of(checkpoint.layer(0)) == HeadOptions{.num_attention_heads = 64,
                                                                .num_query_groups = 8,
                                                                .head_dim = 128,
                                                                .value_head_dim = 128,
                                                                .rotary_dim = 64});
  CHECK(checkpoint.heads_of(checkpoint.layer(1)) == HeadOptions{.num_attention_heads = 96,
                                                                .num_query_groups = 8,
                                                                .head_dim = 128,
                                                                .value_head_dim = 128,
                                                                .rotary_dim = 128});
  // Three layers of 32 heads more, and a gate for each of all heads.
  const std::int64_t more = 3LL * 2 * 4096 * 32 * 128 + (64 + 3 * 96) * 4096;
  CHECK(num_parameters(checkpoint) ==
        num_parameters(import_config_text(step_config(router)).scenario.model) + more);
  CHECK(contains(refusal_of_file(step_config(heads + R"(, "swiglu_limits": [0, 0, 7.0, null])")),
                 "swiglu_limits: a clamped SwiGLU in 1 of 4 layers"));
  const ModelSpec model = import_config_text(step_config(router)).scenario.model;
  CHECK(expert_letters_of(model) == "dede");
  CHECK(model.num_query_groups == 8);
  CHECK(contains(refusal_of_file(step_config(R"(, "moe_router_activation": "sigmoid")")),
                 "moe_router_activation sigmoid without use_moe_router_bias (here it is softmax)"));
  CHECK(contains(refusal_of_file(step_config(R"(, "moe_layers_enum": "1;3")")), "E1319"));
  const ModelSpec plain = import_config_text(step_config("")).scenario.model;
  CHECK(expert_letters_of(plain) == "ddde");
  CHECK(plain.moe_router_score == RouterScore::softmax);
  CHECK_FALSE(plain.moe_router_normalised);
  CHECK(plain.moe_router_bias_update_rate == 0.0);
}

}  // namespace shardsim::test
