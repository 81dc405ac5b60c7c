#include <cmath>
#include <string>

#include <catch2/catch.hpp>

#include "strategies/model/make_model.hpp"

#include "scenarios/field_table.hpp"
#include "scenarios/formats/emit.hpp"
#include "scenarios/load.hpp"
#include "scenarios/scenario.hpp"

#include "tests/exchange/exchange_fixture.hpp"

// Activations, norms and the order of branches from files of Hugging Face, and through flags of
// Megatron-LM.
namespace shardsim::test {

namespace {

// A small file of this family. The parameters that the importer counts for transformers are those
// of its scenario.
ModelSpec hf_shape_of(const std::string& more) {
  const TemporaryFolder folder;
  write(folder / "config.json", R"({"hidden_size": 64, "intermediate_size": 96, "vocab_size": 100,
    "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 7,
    "max_position_embeddings": 64, )" +
                                    more + "}");
  const Imported imported = import_file({"hf", folder / "config.json"});
  const ModelSpec model = imported.scenario.model;
  INFO(imported.printed.err);
  CHECK(contains(imported.printed.err, std::to_string(num_parameters(model)) + " parameters"));
  return model;
}

// w: a window, f: everything, n: everything without rotary positions.
std::string letters_of(const ModelSpec& model) {
  std::string letters;
  for (std::int64_t i = 0; i < model.num_layers && !model.layers.empty(); ++i) {
    const LayerSpec& layer = model.layer(i);
    letters += layer.window_size > 0 ? 'w' : layer.rotary ? 'f' : 'n';
  }
  return letters;
}

// Flags of a model with this shape, and the scenario that is read from them.
struct ShapeExported {
  std::string flags;
  ModelSpec planned;
  ModelSpec imported;
};

ShapeExported exported_shape(const std::string& shape, bool approximate = false) {
  ShapeExported result;
  const Scenario planned = load_scenario_text(
      R"({"schema_version": 1, "system": {"preset": "dgx-h100", "nodes": 1},
          "training": {"global_batch_size": 8, "micro_batch_size": 1},
          "model": {"family": "llama", "num_layers": 2, "hidden_size": 64, "ffn_hidden_size": 128,
                    "num_attention_heads": 4, "vocab_size": 128, "seq_len": 32, )" +
          shape + "}}",
      "test.json");
  result.planned = planned.model;
  result.flags = emit_megatron(planned).text;
  const TemporaryFolder folder;
  write(folder / "run.sh", result.flags + " --padded-vocab-size 128");
  std::vector<std::string> arguments = {"megatron", folder / "run.sh", "--gpus", "8"};
  if (approximate) arguments.emplace_back("--approximate");
  result.imported = import_file(arguments).scenario.model;
  return result;
}

}  // namespace

TEST_CASE("GPT-OSS clamps its SwiGLU at 7, or where its file says", "[exchange]") {
  const std::string experts = R"(, "num_local_experts": 4, "num_experts_per_tok": 2)";
  const ModelSpec oss = hf_shape_of(R"("model_type": "gpt_oss")" + experts);
  CHECK(oss.activation == Activation::clamped_swiglu);
  CHECK(oss.swiglu_limit == 7.0);
  CHECK(hf_shape_of(R"("model_type": "gpt_oss", "swiglu_limit": 5)" + experts).swiglu_limit == 5.0);
}

TEST_CASE("Gemma's norms, gates, factors and windows are those of transformers", "[exchange]") {
  const ModelSpec two = hf_shape_of(
      R"("model_type": "gemma2", "head_dim": 32, "query_pre_attn_scalar": 64,
         "attn_logit_softcapping": 50, "final_logit_softcapping": 30, "sliding_window": 16,
         "hidden_activation": "gelu_pytorch_tanh")");
  CHECK(two.activation == Activation::geglu_tanh);
  CHECK(two.norm_placement == NormPlacement::sandwich);
  CHECK(two.norm_zero_centred);
  CHECK(two.embedding_scale == 8.0);
  CHECK(two.attention_scale == 0.125);
  CHECK(two.attention_logit_cap == 50.0);
  CHECK(two.final_logit_cap == 30.0);
  CHECK(two.tied_embeddings);
  CHECK(two.query_key_norm == QueryKeyNorm::none);
  CHECK(letters_of(two) == "wfwfwfw");
  const ModelSpec three =
      hf_shape_of(R"("model_type": "gemma3_text", "head_dim": 32, "sliding_window": 16)");
  CHECK(three.query_key_norm == QueryKeyNorm::per_head);
  CHECK(three.attention_scale == 0.0625);  // query_pre_attn_scalar 256.
  CHECK(three.rope_theta == 1e6);
  CHECK(three.layer(0).rope_theta == 10000.0);
  CHECK(three.layer(5).rope_theta == 0.0);
  CHECK(letters_of(three) == "wwwwwfw");
}

TEST_CASE("Gemma 3's files leave out sizes that are its class's", "[exchange]") {
  const TemporaryFolder folder;
  // google/gemma-3-4b-pt.
  write(folder / "config.json", R"({"model_type": "gemma3", "text_config": {
    "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240,
    "num_hidden_layers": 34, "sliding_window": 1024}})");
  const ModelSpec model = import_file({"hf", folder / "config.json"}).scenario.model;
  CHECK(num_parameters(model) == 3'880'263'168);
  CHECK(model.embedding_scale == std::sqrt(2560.0));
}

TEST_CASE("Families with norms behind their branches, and those with branches beside each other",
          "[exchange]") {
  const ModelSpec olmo = hf_shape_of(R"("model_type": "olmo2")");
  CHECK(olmo.norm_placement == NormPlacement::post);
  CHECK(olmo.query_key_norm == QueryKeyNorm::whole);
  CHECK(letters_of(olmo).empty());
  CHECK(letters_of(hf_shape_of(R"("model_type": "olmo3", "sliding_window": 16)")) == "wwwfwww");
  const ModelSpec exaone = hf_shape_of(
      R"("model_type": "exaone4", "sliding_window": 16, "sliding_window_pattern": "LLG")");
  CHECK(exaone.norm_placement == NormPlacement::post);
  CHECK(exaone.query_key_norm == QueryKeyNorm::per_head);
  CHECK(letters_of(exaone) == "wwnwwnw");
  CHECK(letters_of(hf_shape_of(R"("model_type": "exaone4", "sliding_window": null)")).empty());
  const ModelSpec command =
      hf_shape_of(R"("model_type": "cohere2", "logit_scale": 0.25, "layer_norm_eps": 1e-3)");
  CHECK(command.parallel_block);
  CHECK(command.norm_kind == NormKind::layer_without_bias);
  CHECK(command.logit_scale == 0.25);
  CHECK(command.norm_epsilon == 1e-3);
  CHECK(command.tied_embeddings);
  CHECK(letters_of(command) == "wwwnwww");
}

TEST_CASE("Nemotron's squared ReLU and Granite's factors", "[exchange]") {
  const ModelSpec nemotron = hf_shape_of(R"("model_type": "nemotron", "hidden_act": "relu2")");
  CHECK(nemotron.activation == Activation::squared_relu);
  CHECK(nemotron.norm_kind == NormKind::layer);
  CHECK(nemotron.norm_zero_centred);
  CHECK(nemotron.rotary_dim == 8);
  const ModelSpec granite = hf_shape_of(
      R"("model_type": "granite", "embedding_multiplier": 12, "residual_multiplier": 0.22,
         "attention_multiplier": 0.015625, "logits_scaling": 8, "mlp_bias": true)");
  CHECK(granite.embedding_scale == 12.0);
  CHECK(granite.residual_scale == 0.22);
  CHECK(granite.attention_scale == 0.015625);
  CHECK(granite.logit_scale == 0.125);
  CHECK(granite.mlp_bias);
}

TEST_CASE("An activation that no scenario has is refused", "[exchange]") {
  const TemporaryFolder folder;
  const std::string file = folder / "config.json";
  for (const char* more : {R"("model_type": "llama", "hidden_act": "gelu")",
                           R"("model_type": "llama", "swiglu_limit": 7)"}) {
    write(file, R"({"hidden_size": 64, "intermediate_size": 96, "vocab_size": 100,
      "num_attention_heads": 4, "num_hidden_layers": 2, "max_position_embeddings": 64, )" +
                    std::string(more) + "}");
    const Printed printed = shardsim({"import", "hf", file});
    INFO(printed.err);
    CHECK(printed.exit_code == 2);
    CHECK((contains(printed.err, "activation gelu (here it is swiglu)") ||
           contains(printed.err, "swiglu_limit 7: a clamped SwiGLU")));
  }
}

TEST_CASE("Shapes of blocks become flags of Megatron-LM, and are read again", "[exchange]") {
  for (const char* shape :
       {R"("norm_epsilon": 1e-5)", R"("activation": "squared_relu")",
        R"("activation": "clamped_swiglu", "swiglu_limit": 5)", R"("norm_kind": "layer_norm")",
        R"("norm_kind": "layer_norm", "norm_zero_centred": true, "activation": "squared_relu")",
        R"("activation": "gelu_tanh")",
        R"("query_key_value_bias": true, "attention_out_bias": true, "mlp_bias": true)"}) {
    const ShapeExported result = exported_shape(shape);
    INFO(shape << "\n" << result.flags);
    CHECK_FALSE(contains(result.flags, "Megatron-LM has no"));
    CHECK(result.imported.activation == result.planned.activation);
    CHECK(result.imported.swiglu_limit == result.planned.swiglu_limit);
    CHECK(result.imported.norm_kind == result.planned.norm_kind);
    CHECK(result.imported.norm_zero_centred == result.planned.norm_zero_centred);
    CHECK(result.imported.mlp_bias == result.planned.mlp_bias);
    CHECK(num_parameters(result.imported) == num_parameters(result.planned));
  }
}

TEST_CASE("What Megatron-LM has no flag for is said", "[exchange]") {
  for (const char* shape :
       {R"("activation": "geglu_tanh")", R"("norm_kind": "layer_norm_without_bias")",
        R"("norm_placement": "sandwich")", R"("parallel_block": true)", R"("mlp_bias": true)",
        R"("embedding_scale": 8)", R"("residual_scale": 0.5)", R"("logit_scale": 0.5)"}) {
    const std::string quoted = shape;
    const std::string field = quoted.substr(1, quoted.find('"', 1) - 1);
    INFO(shape);
    CHECK(contains(exported_shape(shape, true).flags, field));  // Flags have hyphens.
  }
}

}  // namespace shardsim::test
