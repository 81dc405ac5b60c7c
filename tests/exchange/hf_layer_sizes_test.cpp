#include <string>

#include <catch2/catch.hpp>

#include "tests/exchange/exchange_fixture.hpp"

// Sizes of layers that no scenario has, in refusals of config.json: added up over the tensors that
// the models' code makes, with their shapes as numbers.
namespace shardsim::test {

namespace {

std::string layers_refusal(const std::string& json) {
  const TemporaryFolder folder;
  write(folder / "config.json", json);
  const Printed printed = shardsim({"import", "hf", folder / "config.json"});
  CHECK(printed.exit_code == 2);
  CHECK(printed.out.empty());
  return printed.err;
}

void check_size(const std::string& refusal, const std::string& said) {
  INFO(refusal);
  INFO(said);
  CHECK(contains(refusal, said));
}

std::string both_costs(std::int64_t parameters, std::int64_t flops) {
  return std::to_string(parameters) + " parameters and " + std::to_string(flops) +
         " FLOPs per token forward";
}

// Eight layers, of which the sixth and the last see everything.
std::string gemma4_with(const std::string& more) {
  return R"({"model_type": "gemma4_text", "hidden_size": 64, "intermediate_size": 96,
    "vocab_size": 100, "num_hidden_layers": 8, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 16, "global_head_dim": 32, "max_position_embeddings": 64, "sliding_window": 8,
    "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention",
                    "sliding_attention", "sliding_attention", "full_attention",
                    "sliding_attention", "full_attention"])" +
         more + "}";
}

const std::string kNoInputs = R"(, "hidden_size_per_layer_input": 0)";

}  // namespace

TEST_CASE("M13: Gemma 4's experts beside an MLP are refused with their size", "[exchange]") {
  const std::string refusal = layers_refusal(
      gemma4_with(kNoInputs + R"(, "enable_moe_block": true, "num_experts": 16, "top_k_experts": 3,
    "moe_intermediate_size": 24)"));
  // proj, scale and per_expert_scale; gate_up_proj and down_proj; three norms.
  const std::int64_t router = 16 * 64;
  const std::int64_t expert = 48 * 64 + 64 * 24;
  check_size(refusal, "enable_moe_block: experts beside a dense MLP in one layer (" +
                          both_costs(8 * (router + 64 + 16 + 16 * expert + 3 * 64),
                                     8 * 2 * (router + 3 * expert)) +
                          " beside the MLP's, in all 8 layers)");
}

TEST_CASE("M13: Layers without keys of their own are refused with what they lack", "[exchange]") {
  const std::string shared = R"(, "num_kv_shared_layers": 3, "use_double_wide_mlp": true)";
  const std::string refusal = layers_refusal(gemma4_with(kNoInputs + shared));
  // The last three: two that see everything. k_proj, v_proj and k_norm of each.
  const std::int64_t full = 2 * (2 * 32 * 64);
  const std::int64_t sliding = 2 * (2 * 16 * 64);
  check_size(refusal,
             "num_kv_shared_layers 3: layers that share keys and values (the last 3 of 8 layers "
             "lack " +
                 both_costs(2 * (full + 32) + sliding + 16, 2 * (2 * full + sliding)) +
                 " of keys and values)");
  const std::int64_t wide = 3 * (3 * 96 * 64);
  check_size(refusal, "use_double_wide_mlp: MLPs of twice the width in layers that share keys (" +
                          both_costs(wide, 2 * wide) + " more in the last 3 of 8 layers)");
  // Keys that are values have one projection, and may be fewer.
  const std::string equal = layers_refusal(gemma4_with(
      kNoInputs + shared + R"(, "attention_k_eq_v": true, "num_global_key_value_heads": 1)"));
  check_size(equal, both_costs(2 * (32 * 64 + 32) + sliding + 16, 2 * (2 * 32 * 64 + sliding)) +
                        " of keys and values)");
}

TEST_CASE("M13: An MLP is twice as wide in no layer where none shares keys", "[exchange]") {
  const TemporaryFolder folder;
  const std::string wide = R"(, "use_double_wide_mlp": true)";
  write(folder / "config.json", gemma4_with(kNoInputs + wide));
  CHECK(import_file({"hf", folder / "config.json"}).scenario.model.ffn_hidden_size == 96);
  const std::string all =
      layers_refusal(gemma4_with(kNoInputs + wide + R"(, "num_kv_shared_layers": 8)"));
  CHECK_FALSE(contains(all, "use_double_wide_mlp"));
}

TEST_CASE("M13: Embeddings for each layer are refused with their size, there or not",
          "[exchange]") {
  // The table, per_layer_model_projection and its norm; a gate, a projection and a norm per layer.
  const auto size = [](std::int64_t width, std::int64_t rows) {
    const std::int64_t table = rows * 8 * width;
    const std::int64_t matrices = 64 * 8 * width + 8 * (2 * 64 * width);
    return both_costs(table + matrices + width + 8 * 64, 2 * matrices) + ", " +
           std::to_string(table) + " of them in a table)";
  };
  check_size(layers_refusal(gemma4_with(R"(, "hidden_size_per_layer_input": 12,
    "vocab_size_per_layer_input": 50)")),
             "hidden_size_per_layer_input 12: embeddings for each layer (" + size(12, 50));
  check_size(layers_refusal(gemma4_with("")),
             "hidden_size_per_layer_input, which is not there and then 256: embeddings for each "
             "layer (" +
                 size(256, 262144));
  check_size(layers_refusal(R"({"model_type": "gemma3n_text", "hidden_size": 64,
    "num_hidden_layers": 8, "hidden_size_per_layer_input": 12})"),
             "its size needs vocab_size_per_layer_input");
}

TEST_CASE("M13: Blocks with sizes of their own are refused with all of their size", "[exchange]") {
  const std::string begin = R"({"model_type": "nemotron-nas", "hidden_size": 512,
    "num_attention_heads": 8, "num_hidden_layers": 3, "block_configs": )";
  const std::string refusal = layers_refusal(begin + R"([
    {"attention": {"n_heads_in_group": 4, "no_op": false}, "ffn": {"ffn_mult": 2.625}},
    {"attention": {"n_heads_in_group": null, "no_op": true}, "ffn": {"intermediate_size": 100}},
    {"attention": {"replace_with_linear": true}, "ffn": {"no_op": true}}]})");
  // Query and output, key and value of two groups; 2.625 x 512 x 2 / 3 = 896, filled up to 1024.
  const std::int64_t matrices =
      2 * 512 * 512 + 2 * 128 * 512 + 3 * 1024 * 512 + 3 * 100 * 512 + 512 * 512;
  check_size(refusal, "block_configs: blocks with sizes of their own (" +
                          both_costs(matrices + 4 * 512, 2 * matrices) +
                          " in all 3 blocks, without scores of attention)");
  check_size(layers_refusal(begin + R"([{"attention": {"no_op": true}, "ffn": {}}]})"),
             "its size needs block_configs[0].ffn.ffn_mult");
  check_size(layers_refusal(begin + R"([{"ffn": {"no_op": true}}]})"),
             "its size needs block_configs[0].attention.n_heads_in_group");
  check_size(layers_refusal(begin + R"([4]})"), "its size needs a list of blocks");
}

TEST_CASE("M13: Biases of experts are refused with their size", "[exchange]") {
  const std::string nemotron = R"({"model_type": "nemotron_h", "hidden_size": 64,
    "intermediate_size": 96, "vocab_size": 100, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 64, "num_hidden_layers": 7, "mamba_num_heads": 4,
    "mamba_head_dim": 8, "n_groups": 2, "ssm_state_size": 16, "conv_kernel": 4, "chunk_size": 16,
    "hybrid_override_pattern": "MEMEMEM", "n_routed_experts": 4, "num_experts_per_tok": 2,
    "moe_intermediate_size": 24, "mlp_bias": true, )";
  const auto said = [](const std::string& places, std::int64_t parameters) {
    return "mlp_bias: biases of " + places + " (" + both_costs(3 * parameters, 0) +
           " in all 3 layers with experts)";
  };
  check_size(layers_refusal(nemotron + R"("moe_shared_expert_intermediate_size": 40})"),
             said("the shared expert", 40 + 64));
  check_size(layers_refusal(nemotron + R"("moe_shared_expert_intermediate_size": 0,
    "moe_latent_size": 32})"),
             said("the projections of moe_latent_size", 32 + 64));
  check_size(
      layers_refusal(nemotron + R"("moe_shared_expert_intermediate_size": 40,
    "moe_latent_size": 32})"),
      said("the shared expert and of the projections of moe_latent_size", 40 + 64 + 32 + 64));
}

}  // namespace shardsim::test
