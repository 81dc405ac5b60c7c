#include <cmath>
#include <string>

#include <catch2/catch.hpp>

#include "scenarios/formats/emit.hpp"
#include "scenarios/load.hpp"
#include "scenarios/scenario.hpp"

#include "tests/exchange/exchange_fixture.hpp"

// Latent attention from files of Hugging Face, and through flags of Megatron-LM.
namespace shardsim::test {

namespace {

const std::string kLatents =
    R"("kv_lora_rank": 24, "q_lora_rank": 40, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
       "v_head_dim": 20)";

std::string small_file(const std::string& more) {
  return R"({"model_type": "deepseek_v3", "hidden_size": 64, "intermediate_size": 96,
    "vocab_size": 100, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2,
    "max_position_embeddings": 64, "n_routed_experts": 8, "num_experts_per_tok": 4,
    "moe_intermediate_size": 32, )" +
         more + "}";
}

ModelSpec latent_from_hf(const std::string& more) {
  const TemporaryFolder folder;
  write(folder / "config.json", small_file(more));
  return import_file({"hf", folder / "config.json"}).scenario.model;
}

Scenario latent_scenario(const std::string& more) {
  return load_scenario_text(
      R"({"schema_version": 1, "system": {"preset": "dgx-h100", "nodes": 1},
          "training": {"global_batch_size": 8, "micro_batch_size": 1},
          "model": {"family": "llama", "num_layers": 2, "hidden_size": 64, "ffn_hidden_size": 128,
                    "num_attention_heads": 4, "vocab_size": 128, "seq_len": 32, )" +
          more + "}}",
      "test.json");
}

void require_flags_return(const std::string& more) {
  const Scenario planned = latent_scenario(more);
  const std::string flags = emit_megatron(planned).text;
  const TemporaryFolder folder;
  write(folder / "run.sh", flags + " --padded-vocab-size 128");
  const Scenario back = import_file({"megatron", folder / "run.sh", "--gpus", "8"}).scenario;
  INFO(flags);
  CHECK(flags.find("kv-channels") == std::string::npos);
  CHECK(flags.find("rotary-percent") == std::string::npos);
  CHECK(back.model.kv_lora_rank == planned.model.kv_lora_rank);
  CHECK(back.model.q_lora_rank == planned.model.q_lora_rank);
  CHECK(back.model.qk_nope_head_dim == planned.model.qk_nope_head_dim);
  CHECK(back.model.qk_rope_head_dim == planned.model.qk_rope_head_dim);
  CHECK(back.model.value_head_dim == planned.model.value_head_dim);
  CHECK(back.model.head_dim == planned.model.head_dim);
  CHECK(back.model.query_key_norm == QueryKeyNorm::none);
  CHECK(back.model.attention_scale == Approx(planned.model.attention_scale).epsilon(1e-12));
  CHECK(num_parameters(back.model) == num_parameters(planned.model));
}

}  // namespace

TEST_CASE("Kimi-K2's file has its parameters, biases of the choice aside", "[exchange]") {
  const Imported imported = import_file({"hf", kData + "kimi-k2.config.json"});
  const ModelSpec& model = imported.scenario.model;
  CHECK(num_parameters(model) == 1026408232448 - 60 * 384);
  CHECK(contains(imported.printed.err, "1026408232448"));
  CHECK(model.kv_lora_rank == 512);
  CHECK(model.q_lora_rank == 1536);
  CHECK(model.head_dim == 192);
  CHECK(model.value_head_dim == 128);
  CHECK(model.num_query_groups == 64);
}

TEST_CASE("Latents of a file are those of the scenario; a null rank is none", "[exchange]") {
  const ModelSpec model = latent_from_hf(kLatents + R"(, "head_dim": 8)");
  CHECK(model.kv_lora_rank == 24);
  CHECK(model.q_lora_rank == 40);
  CHECK(model.head_dim == 24);
  CHECK(model.rotary_dim == 8);
  CHECK(model.value_head_dim == 20);
  CHECK(model.num_query_groups == 4);  // Their number of key heads says nothing.
  CHECK(model.attention_scale == 0);
  const ModelSpec keys = latent_from_hf(
      R"("kv_lora_rank": 24, "q_lora_rank": null, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
         "v_head_dim": 20)");
  CHECK(keys.q_lora_rank == 0);
  CHECK(keys.kv_lora_rank == 24);
}

TEST_CASE("Yarn scales scores by mscale squared, as DeepSeek-V3's file says", "[exchange]") {
  const std::string yarn = R"(, "rope_scaling": {"type": "yarn", "factor": 40, "beta_fast": 32,
    "beta_slow": 1, "original_max_position_embeddings": 4096)";
  const ModelSpec v3 =
      latent_from_hf(kLatents + yarn + R"(, "mscale": 1.0, "mscale_all_dim": 1.0})");
  const double mscale = 0.1 * std::log(40.0) + 1.0;
  CHECK(v3.attention_scale == Approx(mscale * mscale / std::sqrt(24.0)).epsilon(1e-14));
  const ModelSpec v2 =
      latent_from_hf(kLatents + yarn + R"(, "mscale": 0.707, "mscale_all_dim": 0.707})");
  const double smaller = 0.0707 * std::log(40.0) + 1.0;
  CHECK(v2.attention_scale == Approx(smaller * smaller / std::sqrt(24.0)).epsilon(1e-14));
  CHECK(latent_from_hf(kLatents + R"(, "rope_scaling": null)").attention_scale == 0);
}

TEST_CASE("What latent attention cannot be is refused, all of it", "[exchange]") {
  const TemporaryFolder folder;
  const std::string file = folder / "config.json";
  write(file, small_file(R"("kv_lora_rank": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
    "attention_bias": true, "rope_scaling": {"type": "yarn", "factor": 40, "mscale": 1.0,
    "mscale_all_dim": 0.5})"));
  const Printed printed = shardsim({"import", "hf", file});
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.err, "E1355"));
  CHECK(contains(printed.err, "v_head_dim"));
  CHECK(contains(printed.err, "biases of latent attention"));
  CHECK(contains(printed.err, "mscale and mscale_all_dim that differ"));
}

TEST_CASE("Latents go through Megatron-LM's flags and come back", "[exchange]") {
  require_flags_return(R"("kv_lora_rank": 24, "q_lora_rank": 40, "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8, "value_head_dim": 20)");
  require_flags_return(R"("kv_lora_rank": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
    "value_head_dim": 20, "attention_scale": 0.4)");
  const std::string wide = emit_megatron(latent_scenario(R"("value_head_dim": 20)")).text;
  CHECK(contains(wide, "# Megatron-LM has values of another size"));
  const std::string small =
      emit_megatron(
          latent_scenario(
              R"("kv_lora_rank": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "value_head_dim": 20,
         "attention_scale": 0.01)"))
          .text;
  CHECK(contains(small, "# Megatron-LM makes scores of latent attention no smaller"));
}

TEST_CASE("Megatron-LM's latents have norms, or are refused; sizes have its defaults",
          "[exchange]") {
  const TemporaryFolder folder;
  const std::string file = folder / "run.sh";
  const std::string start =
      "torchrun pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 "
      "--seq-length 32 --max-position-embeddings 32 --micro-batch-size 1 --global-batch-size 8 "
      "--swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear "
      "--padded-vocab-size 128 --bf16 --multi-latent-attention";
  write(file, start);
  const Printed printed = shardsim({"import", "megatron", file, "--gpus", "8"});
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.err, "without qk_layernorm"));
  write(file, start + " --qk-layernorm");
  const ModelSpec model = import_file({"megatron", file, "--gpus", "8"}).scenario.model;
  CHECK(model.kv_lora_rank == 32);
  CHECK(model.q_lora_rank == 0);
  CHECK(model.head_dim == 128 + 64);
  CHECK(model.value_head_dim == 128);
}

}  // namespace shardsim::test
