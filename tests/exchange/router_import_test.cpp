#include <string>

#include <catch2/catch.hpp>

#include "scenarios/field_table.hpp"
#include "scenarios/formats/emit.hpp"
#include "scenarios/load.hpp"
#include "scenarios/scenario.hpp"

#include "tests/exchange/exchange_fixture.hpp"

// Experts and routers from files of Hugging Face, and through flags of Megatron-LM.
namespace shardsim::test {

namespace {

// A small file of this family, with more keys.
ModelSpec hf_model(const std::string& more) {
  const TemporaryFolder folder;
  write(folder / "config.json", R"({"hidden_size": 64, "intermediate_size": 96, "vocab_size": 100,
    "num_attention_heads": 4, "num_hidden_layers": 2, "max_position_embeddings": 64,
    "moe_intermediate_size": 32, )" +
                                    more + "}");
  return import_file({"hf", folder / "config.json"}).scenario.model;
}

constexpr const char* kPlaces = R"("n_routed_experts": 8, "num_experts_per_tok": 4)";

// A model with these experts as flags, and read again.
struct Exported {
  Scenario planned;
  std::string flags;
  Scenario imported;
};

Exported exported(const std::string& experts) {
  Exported result;
  result.planned = load_scenario_text(
      R"({"schema_version": 1, "system": {"preset": "dgx-h100", "nodes": 1},
          "training": {"global_batch_size": 8, "micro_batch_size": 1},
          "model": {"family": "llama", "num_layers": 2, "hidden_size": 64, "ffn_hidden_size": 128,
                    "num_attention_heads": 4, "vocab_size": 128, "seq_len": 32,
                    "num_experts": 8, )" +
          experts + "}}",
      "test.json");
  result.flags = emit_megatron(result.planned).text;
  const TemporaryFolder folder;
  write(folder / "run.sh", result.flags + " --padded-vocab-size 128");
  result.imported = import_file({"megatron", folder / "run.sh", "--gpus", "8"}).scenario;
  return result;
}

void require_unchanged(const std::string& experts) {
  const Exported result = exported(experts);
  INFO(experts << "\n" << result.flags);
  CHECK(result.flags.find("Megatron-LM has no") == std::string::npos);
  for (const Field& field : model_fields()) {
    const bool is_about_experts =
        field.path.rfind("model.moe_", 0) == 0 || field.path.rfind("model.num_experts", 0) == 0;
    if (!is_about_experts || !field.get) continue;
    INFO(field.path);
    CHECK(field.get(result.imported) == field.get(result.planned));
  }
}

}  // namespace

TEST_CASE("Routers of families are those of transformers", "[exchange]") {
  const std::string experts = kPlaces;
  const ModelSpec glm =
      hf_model(R"("model_type": "glm4_moe", "n_shared_experts": 1, "routed_scaling_factor": 2.5,
                  "norm_topk_prob": true, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1,
                  "use_qk_norm": true, "attention_bias": true, "partial_rotary_factor": 0.5, )" +
               experts);
  CHECK(glm.moe_router_score == RouterScore::sigmoid);
  CHECK(glm.moe_router_normalised);
  CHECK(glm.moe_router_scaling_factor == 2.5);
  CHECK(glm.moe_router_bias_update_rate == 1e-3);
  CHECK(glm.moe_router_num_groups == 1);
  CHECK(glm.moe_shared_ffn_hidden_size == 32);
  CHECK(glm.query_key_norm == QueryKeyNorm::per_head);
  CHECK(glm.query_key_value_bias);
  CHECK_FALSE(glm.attention_out_bias);
  const ModelSpec groups =
      hf_model(R"("model_type": "glm4_moe", "n_group": 4, "topk_group": 2, )" + experts);
  CHECK(groups.moe_router_num_groups == 4);
  CHECK(groups.moe_router_group_topk == 2);
  CHECK(groups.moe_router_group_score == GroupScore::sum);
  const ModelSpec second = hf_model(
      R"("model_type": "deepseek_v2", "topk_method": "group_limited_greedy", "n_group": 4,
         "topk_group": 2, "routed_scaling_factor": 16.0, "norm_topk_prob": false, )" +
      experts);
  CHECK(second.moe_router_score == RouterScore::softmax);
  CHECK_FALSE(second.moe_router_normalised);
  CHECK(second.moe_router_scaling_factor == 16.0);
  CHECK(second.moe_router_group_score == GroupScore::maximum);
  CHECK(second.moe_router_bias_update_rate == 0.0);
  const ModelSpec greedy = hf_model(
      R"("model_type": "deepseek_v2", "topk_method": "greedy", "n_group": 4, "topk_group": 2, )" +
      experts);
  CHECK(greedy.moe_router_num_groups == 1);
  const ModelSpec ernie =
      hf_model(R"("model_type": "ernie4_5_moe", "moe_num_experts": 8, "moe_k": 2,
                  "moe_num_shared_experts": 2, "moe_layer_start_index": 1)");
  CHECK(ernie.moe_router_score == RouterScore::softmax);
  CHECK(ernie.moe_router_bias_update_rate == 1e-3);
  CHECK(ernie.num_experts_per_token == 2);
  CHECK(ernie.moe_shared_ffn_hidden_size == 64);
  CHECK(ernie.first_dense_layers == 1);
  CHECK(ernie.tied_embeddings);
  const ModelSpec gated =
      hf_model(R"("model_type": "qwen2_moe", "shared_expert_intermediate_size": 40, )" + experts);
  CHECK(gated.moe_shared_ffn_hidden_size == 40);
  CHECK(gated.moe_shared_gate);
  CHECK_FALSE(gated.moe_router_normalised);
  const ModelSpec third =
      hf_model(R"("model_type": "qwen3_moe", "norm_topk_prob": true, )" + experts);
  CHECK(third.moe_router_normalised);
}

TEST_CASE("Biases of GPT-OSS's experts have places", "[exchange]") {
  const ModelSpec model =
      import_file({"hf", "tests/exchange/data/gpt-oss-20b.config.json"}).scenario.model;
  CHECK(model.moe_expert_bias);
  CHECK(model.moe_router_logit_bias);
}

TEST_CASE("A group's score of other than two experts is refused", "[exchange]") {
  const TemporaryFolder folder;
  write(folder / "config.json", R"({"model_type": "glm4_moe", "hidden_size": 64,
    "intermediate_size": 96, "vocab_size": 100, "num_attention_heads": 4, "num_hidden_layers": 2,
    "max_position_embeddings": 64, "moe_intermediate_size": 32, "n_group": 4, "topk_group": 4, )" +
                                    std::string(kPlaces) + "}");
  const Printed printed = shardsim({"import", "hf", folder / "config.json"});
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.err, "groups whose score is that of two experts (here of 4 / 4)"));
}

TEST_CASE("Flags for Megatron-LM are read back as the router that they were made of",
          "[exchange]") {
  require_unchanged(R"("num_experts_per_token": 2)");
  require_unchanged(R"("num_experts_per_token": 2, "moe_router_normalised": false,
                       "moe_router_scaling_factor": 2.5, "moe_z_loss_coeff": 0.001)");
  require_unchanged(R"("num_experts_per_token": 4, "moe_router_score": "sigmoid",
                       "moe_router_scaling_factor": 2.5, "moe_router_bias_update_rate": 0.002,
                       "moe_router_num_groups": 4, "moe_router_group_topk": 2,
                       "moe_shared_ffn_hidden_size": 48, "moe_shared_gate": true)");
  require_unchanged(R"("num_experts_per_token": 1, "moe_router_score": "sigmoid",
                       "moe_router_normalised": false, "moe_weight_on_input": true)");
}

TEST_CASE("What Megatron-LM's routers cannot be is told by name", "[exchange]") {
  const auto told = [](const std::string& experts, const std::string& name) {
    const std::string flags = exported(experts).flags;
    INFO(flags);
    CHECK(flags.find("Megatron-LM has") != std::string::npos);
    CHECK(flags.find(name) != std::string::npos);
  };
  told(R"("num_experts_per_token": 2, "moe_router_bias_update_rate": 0.001)",
       "moe_router_bias_update_rate");
  told(R"("num_experts_per_token": 4, "moe_router_num_groups": 4, "moe_router_group_topk": 2,
          "moe_router_group_score": "maximum")",
       "moe_router_group_score maximum");
  told(R"("num_experts_per_token": 2, "moe_expert_bias": true)", "moe_expert_bias");
  told(R"("num_experts_per_token": 2, "moe_router_logit_bias": true)", "moe_router_logit_bias");
  told(R"("num_experts_per_token": 2, "moe_router_score": "sigmoid",
          "moe_router_normalised": false)",
       "moe_router_normalised false of sigmoid with 2 experts");
}

}  // namespace shardsim::test
