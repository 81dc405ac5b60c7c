#include <catch2/catch.hpp>

#include "scenarios/scenario.hpp"

#include "tests/exchange/exchange_fixture.hpp"

// Models as Hugging Face publishes them: the scenario has the published number of parameters, or
// says what it lacks.
namespace shardsim::test {

namespace {

struct PublishedModel {
  const char* file;
  std::int64_t parameters;
};

Mistake hf_mistake(const std::string& file, const char* said, const char* way_out) {
  return {{"import", "hf", file}, said, way_out};
}

void require_refused(const Mistake& mistake) {
  const Printed printed = shardsim(mistake.arguments);
  INFO(printed.err);
  CHECK(printed.exit_code == 2);
  CHECK(printed.out.empty());
  CHECK(contains(printed.err, mistake.said));
  CHECK(contains(printed.err, mistake.way_out));
}

}  // namespace

TEST_CASE("M1: An imported model has the published number of parameters", "[exchange]") {
  const PublishedModel model = GENERATE(
      PublishedModel{"llama3-8b", 8030261248}, PublishedModel{"llama3.3-70b", 70553706496},
      PublishedModel{"mixtral-8x7b", 46702792704}, PublishedModel{"gpt2", 124439808},
      PublishedModel{"qwen3-30b-a3b", 30532122624}, PublishedModel{"qwen2.5-7b", 7615616512});
  const Imported imported = import_file({"hf", kData + model.file + ".config.json"});
  CHECK(num_parameters(imported.scenario.model) == model.parameters);
  CHECK(imported.scenario.warnings.empty());
}

TEST_CASE("Biases of MLPs are parameters", "[exchange]") {
  const TemporaryFolder folder;
  const std::string file = folder / "config.json";
  write(file, R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
    "vocab_size": 100, "num_attention_heads": 4, "num_hidden_layers": 2,
    "max_position_embeddings": 64, "mlp_bias": true})");
  const ModelSpec model = import_file({"hf", file}).scenario.model;
  CHECK(model.mlp_bias);
  ModelSpec without = model;
  without.mlp_bias = false;
  // 2 layers have biases of gate, up and down.
  CHECK(num_parameters(model) - num_parameters(without) == 2 * (2 * 96 + 64));
}

TEST_CASE("A model's fields come under their own names", "[exchange]") {
  const Imported imported =
      import_file({"hf", kData + "mixtral-8x7b.config.json", "--gpus", "16", "--gpu", "A100"});
  const ModelSpec& model = imported.scenario.model;
  CHECK(model.num_experts == 8);
  CHECK(model.num_experts_per_token == 2);
  CHECK(model.moe_ffn_hidden_size == 14336);
  CHECK(model.moe_aux_loss_coeff == 0.00125);
  CHECK(model.rope_theta == 1e6);
  CHECK(imported.scenario.system.preset == "dgx-a100");
  CHECK(imported.scenario.system.ranks == 16);
  CHECK(imported.scenario.training.precision == Precision::bf16);
  CHECK(contains(imported.printed.err, "needs you  the sequence length of training"));
  CHECK(contains(imported.printed.err, "ignored    bos_token_id"));
}

TEST_CASE("Heads that are not as wide as the model, and their norms, are imported", "[exchange]") {
  const ModelSpec model = import_file({"hf", kData + "qwen3-30b-a3b.config.json"}).scenario.model;
  CHECK(model.num_attention_heads == 32);
  CHECK(model.head_dim == 128);
  CHECK(model.hidden_size == 2048);
  CHECK(model.query_key_norm == QueryKeyNorm::per_head);
  const ModelSpec oss = import_file({"hf", kData + "gpt-oss-20b.config.json"}).scenario.model;
  CHECK(oss.head_dim == 64);
  CHECK(oss.query_key_norm == QueryKeyNorm::none);
  CHECK(oss.query_key_value_bias);
  CHECK(oss.attention_out_bias);
  const ModelSpec qwen2 = import_file({"hf", kData + "qwen2.5-7b.config.json"}).scenario.model;
  CHECK(qwen2.query_key_value_bias);
  CHECK_FALSE(qwen2.attention_out_bias);
}

TEST_CASE("A language model beside a tower is imported alone", "[exchange]") {
  const TemporaryFolder folder;
  const std::string file = folder / "config.json";
  write(file, R"({"model_type": "qwen3_vl", "tie_word_embeddings": true, "vision_config": {},
    "text_config": {"model_type": "qwen3_vl_text", "attention_bias": false, "head_dim": 128,
    "hidden_size": 2048, "intermediate_size": 6144, "max_position_embeddings": 262144,
    "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8,
    "rms_norm_eps": 1e-06, "rope_theta": 5000000, "vocab_size": 151936}})");
  const Imported imported = import_file({"hf", file});
  CHECK(num_parameters(imported.scenario.model) == 1720574976);  // That of Qwen3-1.7B.
  CHECK(imported.scenario.model.tied_embeddings);
  CHECK(contains(imported.printed.err, "needs you  vision_config"));
  CHECK(contains(imported.printed.err, "left out"));
  CHECK(imported.scenario.training.precision == Precision::bf16);  // Assumed.
  write(file, R"({"model_type": "qwen3_vl", "torch_dtype": "float32",
    "text_config": {"model_type": "qwen3_vl_text", "hidden_size": 64, "intermediate_size": 96,
    "max_position_embeddings": 64, "num_attention_heads": 4, "num_hidden_layers": 2,
    "vocab_size": 100}})");
  CHECK(import_file({"hf", file}).scenario.training.precision == Precision::fp32);
}

TEST_CASE("Biases and rotary positions of families are those of transformers", "[exchange]") {
  const TemporaryFolder folder;
  const std::string file = folder / "config.json";
  const std::string keys = R"("hidden_size": 64, "intermediate_size": 96, "vocab_size": 100,
    "num_attention_heads": 4, "num_hidden_layers": 2, "max_position_embeddings": 64)";
  const auto model_of = [&](const std::string& more) {
    write(file, "{" + keys + ", " + more + "}");
    return import_file({"hf", file}).scenario.model;
  };
  const ModelSpec llama = model_of(R"("model_type": "llama", "attention_bias": true)");
  CHECK(llama.query_key_value_bias);
  CHECK(llama.attention_out_bias);
  const ModelSpec mimo = model_of(R"("model_type": "mimo", "attention_bias": true)");
  CHECK(mimo.query_key_value_bias);
  CHECK_FALSE(mimo.attention_out_bias);
  const ModelSpec seed =
      model_of(R"("model_type": "seed_oss", "attention_bias": true, "attention_out_bias": false)");
  CHECK(seed.query_key_value_bias);
  CHECK_FALSE(seed.attention_out_bias);
  CHECK(seed.rotary_dim == 16);
  const ModelSpec output =
      model_of(R"("model_type": "seed_oss", "attention_bias": false, "attention_out_bias": true)");
  CHECK_FALSE(output.query_key_value_bias);
  CHECK(output.attention_out_bias);
  CHECK(model_of(R"("model_type": "phi3", "partial_rotary_factor": 0.5)").rotary_dim == 8);
}

TEST_CASE("The trained sequence is not the longest that is allowed", "[exchange]") {
  const Imported imported = import_file({"hf", kData + "llama3.3-70b.config.json"});
  CHECK(imported.scenario.model.seq_len == 8192);  // original_max_position_embeddings
}

TEST_CASE("What a scenario cannot say is refused, or written as near as can be", "[exchange]") {
  const TemporaryFolder folder;
  const std::string path = folder / "config.json";
  write(path, R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
    "vocab_size": 100, "num_attention_heads": 4, "num_hidden_layers": 2,
    "max_position_embeddings": 64, "hc_mult": 4})");
  const std::string said = "hc_mult 4: hyper-connections";
  require_refused(hf_mistake(path, said.c_str(), "--approximate"));
  const Imported imported = import_file({"hf", path, "--approximate"});
  CHECK(contains(imported.printed.err, "needs you  not supported"));
  CHECK(contains(imported.printed.err, said));
}

TEST_CASE("GPT-OSS's windows, sinks and biases are its own, and so is its count", "[exchange]") {
  const PublishedModel model = {"gpt-oss-20b", 20914757184};
  const Imported imported = import_file({"hf", kData + model.file + ".config.json"});
  CHECK(contains(imported.printed.err, std::to_string(model.parameters)));
  const ModelSpec& written = imported.scenario.model;
  CHECK(num_parameters(written) == model.parameters);
  CHECK(written.layers.size() == 2);
  CHECK(written.layers_cycle);
  CHECK(written.layer(22).window_size == 128);
  CHECK(written.layer(23).window_size == 0);
  CHECK(written.layer(23).sinks);
}

TEST_CASE("M13: Rules of layers are expanded, and a pattern that comes again is written once",
          "[exchange]") {
  const TemporaryFolder folder;
  const std::string file = folder / "config.json";
  const std::string keys = R"("hidden_size": 64, "intermediate_size": 96, "vocab_size": 100,
    "num_attention_heads": 4, "num_hidden_layers": 7, "max_position_embeddings": 64)";
  const auto layers_of = [&](const std::string& more) {
    write(file, "{" + keys + ", " + more + "}");
    const ModelSpec model = import_file({"hf", file}).scenario.model;
    std::string letters;
    for (std::int64_t i = 0; i < model.num_layers && !model.layers.empty(); ++i) {
      const LayerSpec& layer = model.layer(i);
      letters += layer.window_size == 16 ? 'w' : layer.rotary ? 'f' : 'n';
    }
    return letters;
  };
  CHECK(layers_of(R"("model_type": "smollm3", "no_rope_layers": [1, 1, 1, 0, 1, 1, 1])") ==
        "fffnfff");
  CHECK(layers_of(R"("model_type": "smollm3", "no_rope_layer_interval": 3)") == "ffnffnf");
  CHECK(layers_of(R"("model_type": "smollm3")") == "fffnfff");
  CHECK(layers_of(R"("model_type": "mistral", "sliding_window": 16)") == "wwwwwww");
  CHECK(layers_of(R"("model_type": "mistral", "sliding_window": null)") == "");
  CHECK(layers_of(R"("model_type": "qwen2", "sliding_window": 16, "max_window_layers": 5)") == "");
  CHECK(layers_of(R"("model_type": "qwen2", "sliding_window": 16, "max_window_layers": 5,
                     "use_sliding_window": true)") == "fffffww");
  CHECK(layers_of(R"("model_type": "llama", "sliding_window": 16, "layer_types":
    ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
     "sliding_attention", "full_attention", "sliding_attention"])") == "wwfwwfw");
  write(file, "{" + keys + R"(, "model_type": "smollm3", "no_rope_layers": [1, 1]})");
  require_refused(hf_mistake(file, "no_rope_layers has 2 entries for 7 layers", "checkpoint"));
}

TEST_CASE("A config.json that cannot be read says where and why", "[exchange]") {
  const TemporaryFolder folder;
  const std::string file = folder / "config.json";
  write(file, R"({"model_type": "mamba", "hidden_size": 64})");
  require_refused(
      hf_mistake(file, "lacks these keys of a llama model: num_hidden_layers, intermediate_size",
                 "\"llama\""));
  require_refused(hf_mistake(file, "config.json:1:16", "known are"));
  write(file, R"({"model_type": "llama", "hidden_size": 64, "vocab_size": 8})");
  require_refused(hf_mistake(file, "num_hidden_layers, intermediate_size, num_attention_heads",
                             "with all its keys"));
  write(file, R"({"model_type": "llama", "hidden_size": "64"})");
  require_refused(hf_mistake(file, "\"hidden_size\" is", "correct it"));
  write(file, R"({"model_type": "qwen2_vl", "text_config": {"hidden_size": 64}})");
  require_refused(hf_mistake(file, "no model_type is not a supported", "known are"));
  require_refused(hf_mistake(folder / "nothing.json", "nothing.json", ""));
}

TEST_CASE("M13: A key that is in no list is refused with its place, and left out with a warning",
          "[exchange]") {
  const TemporaryFolder folder;
  const std::string file = folder / "config.json";
  const std::string keys = R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
    "vocab_size": 100, "num_attention_heads": 4, "num_hidden_layers": 2,
    "max_position_embeddings": 64)";
  write(file, keys + R"(,
    "mixture_of_depths": 2, "bos_token_id": 1, "sandwich_norm": true})");
  const Printed printed = shardsim({"import", "hf", file});
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.err, "E1347"));
  CHECK(contains(printed.err, "config.json:4:26"));
  CHECK(contains(printed.err, "\"mixture_of_depths\" is not known here"));
  CHECK(contains(printed.err, "\"sandwich_norm\" is not known here"));
  CHECK(contains(printed.err, "--approximate leaves it out"));
  const Imported imported = import_file({"hf", file, "--approximate"});
  CHECK(contains(imported.printed.err, "mixture_of_depths 2: this key is not known here"));
  CHECK(imported.scenario.model.hidden_size == 64);
}

TEST_CASE("A key that says nothing refuses nothing", "[exchange]") {
  const TemporaryFolder folder;
  const std::string file = folder / "config.json";
  write(file, R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
    "vocab_size": 100, "num_attention_heads": 4, "num_hidden_layers": 2,
    "max_position_embeddings": 64, "mixture_of_depths": null, "sandwich_norm": false,
    "hidden_size_per_layer_input": 0, "index_topk": null, "attn_type_list": [1, 1],
    "attention_value_scale": 1.0, "some_map": {}, "some_list": [0, 0], "some_name": "",
    "attention_dropout": 0.0, "hidden_act": "silu"})");
  const Imported imported = import_file({"hf", file});
  CHECK(contains(imported.printed.err, "ignored    mixture_of_depths"));
  CHECK_FALSE(contains(imported.printed.err, "not supported"));
}

TEST_CASE("A count of one is a feature, and a scale of one is none", "[exchange]") {
  const TemporaryFolder folder;
  const std::string file = folder / "config.json";
  write(file, R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
    "vocab_size": 100, "num_attention_heads": 4, "num_hidden_layers": 2,
    "max_position_embeddings": 64, "num_kv_shared_layers": 1, "hc_mult": 1})");
  const std::string refusal = shardsim({"import", "hf", file}).err;
  CHECK(contains(refusal, "num_kv_shared_layers 1: layers that share"));
  CHECK_FALSE(contains(refusal, "hc_mult"));
}

TEST_CASE("Differences without a place are told, and refuse nothing", "[exchange]") {
  const TemporaryFolder folder;
  const std::string file = folder / "config.json";
  write(file, R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
    "vocab_size": 100, "num_attention_heads": 4, "num_hidden_layers": 2,
    "max_position_embeddings": 64, "attention_dropout": 0.1,
    "quantization_config": {"quant_method": "fp8"}})");
  const Imported imported = import_file({"hf", file});
  CHECK(contains(imported.printed.err, "needs you  attention_dropout"));
  CHECK(contains(imported.printed.err, "weights are trained unquantized"));
}

TEST_CASE("M13: Features that no scenario has are refused by name and size, all at once",
          "[exchange]") {
  const TemporaryFolder folder;
  const std::string file = folder / "config.json";
  const std::string keys = R"({"hidden_size": 6144, "intermediate_size": 12288,
    "vocab_size": 154880, "num_attention_heads": 64, "num_hidden_layers": 78,
    "max_position_embeddings": 202752, "q_lora_rank": 2048, )";
  write(file, keys + R"("model_type": "glm_moe_dsa", "kv_lora_rank": 512, "n_routed_experts": 256,
    "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "index_topk": 2048,
    "index_n_heads": 32, "index_head_dim": 128, "num_nextn_predict_layers": 1,
    "new_key": 7})");
  const Printed printed = shardsim({"import", "hf", file});
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.err, "E1355"));
  // Per layer 2048 x 32 x 128 + 6144 x 128 + 6144 x 32 in matrices, and a LayerNorm of 128.
  CHECK(contains(printed.err, "index_topk 2048: a sparse indexer"));
  CHECK(contains(printed.err, std::to_string(78 * (9371648 + 256)) + " parameters"));
  CHECK(contains(printed.err, std::to_string(2 * 78 * 9371648) + " FLOPs per token forward"));
  CHECK(contains(printed.err, std::to_string(2 * 78 * 32 * 128) + " more for each earlier"));
  CHECK(contains(printed.err, "latent attention without a size of qk_nope_head_dim"));
  CHECK(contains(printed.err, "new_key 7: this key is not known here"));
}

TEST_CASE("MiniMax's norms, rotary part and bias of the choice have places", "[exchange]") {
  const TemporaryFolder folder;
  const std::string file = folder / "config.json";
  write(file, R"({"model_type": "minimax_m2", "head_dim": 128, "hidden_size": 3072,
    "intermediate_size": 1536, "max_position_embeddings": 196608, "num_attention_heads": 48,
    "num_experts_per_tok": 8, "num_hidden_layers": 62, "num_key_value_heads": 8,
    "num_local_experts": 256, "qk_norm_type": "per_layer", "rms_norm_eps": 1e-06,
    "rope_theta": 5000000, "rotary_dim": 64, "scoring_func": "sigmoid",
    "attn_type_list": [1, 1, 1], "shared_intermediate_size": 0, "use_mtp": true,
    "mtp_transformer_layers": 1, "num_mtp_modules": 3, "tie_word_embeddings": false,
    "use_qk_norm": true, "use_routing_bias": true, "vocab_size": 200064})");
  const ModelSpec model = import_file({"hf", file}).scenario.model;
  CHECK(model.mtp_num_layers == 3);
  CHECK(model.query_key_norm == QueryKeyNorm::whole);
  CHECK(model.rotary_dim == 64);
  CHECK(model.moe_router_bias_update_rate > 0);
  CHECK(num_parameters(model) == 228689764864 - 62 * 256);  // Without biases of the choice.
}

TEST_CASE("Machines that do not exist are refused", "[exchange]") {
  const std::string file = kData + "llama3-8b.config.json";
  require_refused({{"import", "hf", file, "--gpu", "h1000"}, "\"h1000\"", "\"h100\""});
  require_refused({{"import", "hf", file, "--gpus", "12"}, "12 GPUs do not fill", "8 or 16"});
  require_refused({{"import", "keras", file}, "\"keras\"", "\"hf\""});
}

}  // namespace shardsim::test
