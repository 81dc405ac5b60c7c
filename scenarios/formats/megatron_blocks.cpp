#include <string>
#include <vector>

#include <fmt/format.h>

#include "scenarios/formats/import.hpp"
#include "scenarios/formats/megatron_model.hpp"

// The blocks of a run of Megatron-LM: activation, norms, positions and biases, and the family that
// has them. Names: arguments.py and TransformerConfig.
namespace shardsim {

namespace {

// quick_geglu, which is x sigmoid(1.702 x), with what makes it GPT-OSS's.
bool is_clamped(const MegatronBlocks& blocks) {
  return blocks.quick_geglu && blocks.clamp > 0.0 && blocks.offset == 1.0;
}

void import_activation(const MegatronBlocks& blocks, Import& import,
                       std::vector<std::string>& limits) {
  const char* const path = "model.activation";
  if (is_clamped(blocks)) {
    import.derive({"quick_geglu", "True"}, path, std::string("clamped_swiglu"));
    import.take({"activation_func_clamp_value", fmt::format("{}", blocks.clamp)},
                "model.swiglu_limit", blocks.clamp);
    return;
  }
  if (blocks.quick_geglu) {
    limits.push_back(
        "quick_geglu without activation_func_clamp_value and a glu_linear_offset of 1 (here it is "
        "swiglu)");
  } else if (blocks.clamp > 0.0) {
    limits.push_back("activation_func_clamp_value of another activation than quick_geglu");
  }
  if (blocks.squared_relu) {
    import.derive({"squared_relu", "True"}, path, std::string("squared_relu"));
  } else if (!blocks.is_gated()) {
    import.derive({"swiglu", "False"}, path, std::string("gelu_tanh"), "an MLP without a gate");
  }
}

}  // namespace

MegatronBlocks read_megatron_blocks(MegatronArguments& arguments, const MegatronPattern& pattern) {
  MegatronBlocks blocks;
  blocks.lettered = pattern.is_there();
  blocks.swiglu = arguments.truth("swiglu");
  blocks.quick_geglu = arguments.truth("quick_geglu");
  blocks.squared_relu = arguments.truth("squared_relu");
  blocks.clamp = arguments.number("activation_func_clamp_value").value_or(0.0);
  blocks.offset = arguments.number("glu_linear_offset").value_or(0.0);
  const std::string positions = arguments.text("position_embedding_type").value_or("");
  blocks.rotary = arguments.truth("use_rotary_position_embeddings") || positions == "rope" ||
                  positions == "yarn";
  blocks.without_positions = !blocks.rotary && positions == "none";
  blocks.root_mean_square = arguments.text("normalization").value_or("LayerNorm") == "RMSNorm";
  blocks.zero_centred = arguments.truth("apply_layernorm_1p");
  blocks.biased =
      arguments.truth("add_bias_linear", true) && !arguments.truth("disable_bias_linear");
  return blocks;
}

void import_megatron_blocks(const MegatronBlocks& blocks, Import& import,
                            std::vector<std::string>& limits) {
  import.derive({"swiglu", blocks.swiglu ? "True" : "False"}, "model.family",
                std::string(blocks.is_llama() ? "llama" : "gpt2"));
  const char* const mlp = blocks.is_gated() ? "a gated" : "a plain";
  if (!blocks.is_llama()) {
    if (!blocks.biased) {
      limits.push_back(
          "linear layers without biases beside a plain MLP (here a gpt2's blocks have "
          "biases)");
    }
    if (blocks.zero_centred) limits.push_back("apply_layernorm_1p of a gpt2's blocks");
    return;
  }
  if (!blocks.rotary && !blocks.without_positions) {
    limits.push_back(fmt::format(
        "learned positions beside {} MLP (here a llama's blocks have rotary positions)", mlp));
  }
  import_activation(blocks, import, limits);
  if (!blocks.root_mean_square) {
    import.derive({"normalization", "LayerNorm"}, "model.norm_kind", std::string("layer_norm"));
  }
  if (blocks.zero_centred) {
    import.take({"apply_layernorm_1p", "True"}, "model.norm_zero_centred", true);
  }
  if (!blocks.biased) return;
  const ForeignValue cause = {"disable_bias_linear", "False"};
  for (const char* path :
       {"model.query_key_value_bias", "model.attention_out_bias", "model.mlp_bias"}) {
    import.derive(cause, path, true);
  }
}

}  // namespace shardsim
