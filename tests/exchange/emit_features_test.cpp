#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "scenarios/formats/emit.hpp"
#include "scenarios/load.hpp"

#include "tests/exchange/exchange_fixture.hpp"

// Layouts for torchtitan and DeepSpeed name what a model has, and no model of theirs.
namespace shardsim::test {

namespace {

Scenario planned_with(const std::string& model, const std::string& parallelism) {
  return load_scenario_text(
      R"({"schema_version": 1, "name": "parts", "model": {"family": "llama", "num_layers": 2,
          "hidden_size": 32, "ffn_hidden_size": 64, "num_attention_heads": 4, "vocab_size": 64,
          "num_query_groups": 4, "seq_len": 16)" +
          model + R"(}, "system": {"preset": "dgx-h100", "nodes": 1},
          "parallelism": {)" +
          parallelism + R"(}, "training": {"global_batch_size": 8}})",
      "test.json");
}

const std::string kExpertsOfLatents = R"(, "num_experts": 4, "num_experts_per_token": 2,
    "moe_ffn_hidden_size": 16, "moe_latent_size": 8)";
const std::string kBothMixers = R"(, "layers": [{"mixer": "attention_mamba", "repeats": 2}],
    "mamba_num_heads": 4, "mamba_head_dim": 8, "mamba_num_groups": 2, "mamba_state_size": 8)";
const std::string kMamba = R"(, "layers": [{"mixer": "mamba"}, {}],
    "mamba_num_heads": 4, "mamba_head_dim": 8, "mamba_num_groups": 2, "mamba_state_size": 8)";
const std::string kGrowing = R"(, "query_temperature_scale": 0.1, "query_temperature_floor": 8)";
const std::string kWeightedInput = R"(, "num_experts": 4, "num_experts_per_token": 1,
    "moe_ffn_hidden_size": 16, "moe_weight_on_input": true)";
const std::string kUnlikeHeads = R"(, "layers": [{"num_query_groups": 2}, {}])";

struct NamedPart {
  std::string model;
  std::string field;  // In the notes.
};

const std::vector<NamedPart> kParts = {
    {kExpertsOfLatents, "experts on latents (moe_latent_size)"},
    {R"(, "attention_head_gate": true)", "gates of whole heads (attention_head_gate)"},
    {kUnlikeHeads, "heads of a layer's own (model.layers[].num_attention_heads"},
    {R"(, "layers": [{"keys_are_values": true}, {}])", "keys that are values (model.layers[]"},
    {kBothMixers, "attention beside Mamba-2 in a layer (mixer attention_mamba)"},
    {kMamba, "layers of Mamba-2 (mixer mamba)"},
    {R"(, "layers": [{"feed_forward": "none"}, {}])", "layers of one branch (mixer or"},
    {R"(, "layers": [{"attention": "chunked", "chunk_size": 8}, {}])", "attention in chunks ("},
    {R"(, "norm_placement": "sandwich")", "norms behind branches (norm_placement)"},
    {R"(, "norm_kind": "layer_norm")", "layer norms (norm_kind)"},
    {R"(, "parallel_block": true)", "attention and MLP beside each other (parallel_block)"},
    {R"(, "activation": "squared_relu")", "activations without a SwiGLU (activation)"},
    {R"(, "final_logit_cap": 30)", "capped scores or logits (attention_logit_cap"},
    {R"(, "logit_scale": 2)", "scaled embeddings, branches or logits (embedding_scale"},
    {R"(, "query_key_norm": "whole")",
     "norms of whole queries and keys, or norms without weights (query_key_norm)"},
    {kGrowing, "queries that grow with their position (query_temperature_scale)"},
    {kWeightedInput, "weights on what experts read (moe_weight_on_input)"},
    {R"(, "layers": [{"rotary": false}, {}])", "layers without positions (model.layers[].rotary)"},
    {R"(, "num_experts": 4, "num_experts_per_token": 2, "moe_ffn_hidden_size": 16,
         "moe_router_num_groups": 2, "moe_router_group_score": "maximum")",
     "groups of experts that are scored by their best one (moe_router_group_score)"},
    {R"(, "num_experts": 4, "num_experts_per_token": 2, "moe_ffn_hidden_size": 16,
         "moe_capacity_factor": 2)",
     "experts that drop tokens (moe_capacity_factor)"},
    {R"(, "num_experts": 4, "num_experts_per_token": 2, "moe_ffn_hidden_size": 16,
         "moe_aux_loss_coeff": 0.1)",
     "losses of the router (moe_aux_loss_coeff, moe_z_loss_coeff)"},
    {R"(, "mtp_num_layers": 1)", "multi-token prediction without latent attention"},
    {R"(, "value_head_dim": 16)", "values of another size than keys without latent attention"},
    {R"(, "attention_scale": 0.3)", "scores of another scale without latent attention"},
    {R"(, "value_norm": true)", "normed values (value_norm)"},
    {R"(, "value_scale": 0.5)", "scaled values (value_scale)"},
    {R"(, "mlp_gate_scale": 0.5)", "scaled MLPs (mlp_gate_scale, mlp_output_scale)"},
};

}  // namespace

TEST_CASE("torchtitan and DeepSpeed name each part that their models do not have", "[exchange]") {
  for (const NamedPart& planned : kParts) {
    const Scenario scenario = planned_with(planned.model, "");
    const std::string torchtitan = emit_torchtitan(scenario).text;
    const std::string deepspeed = emit_deepspeed(scenario).text;
    for (const NamedPart& part : kParts) {
      INFO(part.field << " of a model with" << planned.model << torchtitan << deepspeed);
      const bool has = part.field == planned.field;
      CHECK(contains(torchtitan, "# torchtitan's models have no " + part.field) == has);
      CHECK(contains(fmt::format("{}", fmt::join(emit_torchtitan(scenario).unsaid, ";")),
                     part.field) == has);
      CHECK(contains(deepspeed, "yours was planned with " + part.field) == has);
    }
  }
  const Scenario plain = planned_with("", R"("tp": 2)");
  CHECK_FALSE(contains(emit_torchtitan(plain).text, "models have no"));
  CHECK_FALSE(contains(emit_deepspeed(plain).text, "shardsim_notes"));
}

TEST_CASE("Factors within Mamba-2 are named beside its layers, and without them not",
          "[exchange]") {
  const char* const part = "factors within Mamba-2 (mamba_z_scale and others)";
  for (const char* field : {"z", "x", "b", "c", "dt", "output"}) {
    const std::string scale = std::string(R"(, "mamba_)") + field + R"(_scale": 0.5)";
    CHECK(contains(emit_torchtitan(planned_with(kMamba + scale, "")).text, part));
    CHECK(contains(emit_deepspeed(planned_with(kBothMixers + scale, "")).text, part));
    CHECK_FALSE(contains(emit_torchtitan(planned_with(scale, "")).text, part));
  }
  CHECK_FALSE(contains(emit_torchtitan(planned_with(kMamba, "")).text, part));
}

TEST_CASE("DeepSpeed's splits that a part does not bear are named where they split", "[exchange]") {
  const char* const latents = "DeepSpeed's MoE layer sends what its gate reads";
  const char* const heads = "AutoTP splits by one number of key and value heads";
  const char* const mamba = "AutoTP splits Mamba-2's projection into equal parts";
  const auto emitted = [](const std::string& model, const std::string& parallelism) {
    const Emission emission = emit_deepspeed(planned_with(model, parallelism));
    for (const std::string& part : emission.unsaid) CHECK(contains(emission.text, part));
    return fmt::format("{}", fmt::join(emission.unsaid, ";"));
  };
  CHECK(contains(emitted(kExpertsOfLatents, R"("ep": 2)"), latents));
  CHECK_FALSE(contains(emitted(kExpertsOfLatents, ""), latents));
  CHECK(contains(emitted(kUnlikeHeads, R"("tp": 2)"), heads));
  CHECK_FALSE(contains(emitted(kUnlikeHeads, ""), heads));
  CHECK(contains(emitted(kBothMixers, R"("tp": 2)"), mamba));
  CHECK_FALSE(contains(emitted(kBothMixers, ""), mamba));
}

TEST_CASE("what a framework cannot say is refused by name, and a note with --approximate",
          "[exchange]") {
  struct Refused {
    std::string framework;
    std::string model;
    std::string parallelism;
    std::string words;
  };
  const Refused all[] = {
      {"torchtitan", kUnlikeHeads, "", "torchtitan's models have no heads of a layer's own"},
      {"deepspeed", kMamba, R"("tp": 2)", "not at all: plan again with --fix tp=1"},
      {"megatron", kBothMixers, "", "Megatron-LM has no attention beside Mamba-2 in a layer"}};
  for (const Refused& each : all) {
    const Emission emission = emit_for(each.framework, planned_with(each.model, each.parallelism));
    INFO(emission.text);
    CHECK(require_said(emission, each.framework, true) == emission.text);
    CHECK(contains(emission.text, each.words));
    try {
      (void)require_said(emission, each.framework, false);
      FAIL("it must be refused");
    } catch (const UsageError& error) {
      CHECK(error.code() == "E1328");
      CHECK(contains(error.what(), each.words));
      CHECK(contains(error.fix(), "--approximate"));
    }
  }
  // A layout that another schedule runs is a note: it trains the same model.
  const Emission plain = emit_for("megatron", planned_with("", R"("pp": 2, "schedule": "zb_h1")"));
  CHECK(contains(plain.text, "has no schedule zb_h1"));
  CHECK(require_said(plain, "megatron", false) == plain.text);
}

TEST_CASE("A DeepSpeed file with notes on the model is still one that is read", "[exchange]") {
  const TemporaryFolder folder;
  write(folder / "ds.json", emit_deepspeed(planned_with(kBothMixers, R"("tp": 2)")).text);
  const Printed printed = shardsim(
      {"import", "deepspeed", folder / "ds.json", "--model", "falcon-h1-34b", "--gpus", "8"});
  INFO(printed.err);
  REQUIRE(printed.exit_code == 0);
  CHECK(load_scenario_text(printed.out, "imported.json").parallelism.tp == 2);
}

}  // namespace shardsim::test
