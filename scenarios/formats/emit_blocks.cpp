#include <string>

#include <fmt/format.h>

#include "strategies/model/make_model.hpp"

#include "scenarios/formats/emit_flags.hpp"

// Activation, norms, biases and factors of a llama's blocks in the flags of Megatron-LM.
namespace shardsim {

namespace {

void add_activation(const ModelSpec& model, Flags& flags) {
  switch (model.activation) {
    case Activation::swiglu:
      return flags.flag("swiglu");
    case Activation::squared_relu:
      return flags.flag("squared-relu");
    case Activation::clamped_swiglu:
      flags.flag("quick-geglu");
      flags.flag("glu-linear-offset", "1.0");
      return flags.flag("activation-func-clamp-value", fmt::format("{}", model.swiglu_limit));
    case Activation::geglu_tanh:
      return flags.lacks("Megatron-LM has no flag for a gate with a GELU (activation geglu_tanh)");
    default:
      return;
  }
}

void add_norms(const ModelSpec& model, Flags& flags) {
  flags.flag("normalization", model.norm_kind == NormKind::rms ? "RMSNorm" : "LayerNorm");
  if (model.norm_kind == NormKind::layer_without_bias) {
    flags.lacks("Megatron-LM's layer norms have biases (norm_kind layer_norm_without_bias)");
  }
  if (model.norm_zero_centred) flags.flag("apply-layernorm-1p");
  if (model.norm_placement != NormPlacement::pre) {
    flags.lacks(fmt::format("Megatron-LM has norms in front of branches alone (norm_placement {})",
                            to_string(model.norm_placement)));
  }
}

}  // namespace

bool has_all_biases(const ModelSpec& model) {
  return model.query_key_value_bias && model.attention_out_bias &&
         (model.mlp_bias || model.layers_with_dense() == 0) &&
         (model.moe_expert_bias || model.num_experts == 0);
}

// Megatron-LM has biases of all linear layers, or of queries, keys and values, or none.
void add_biases(const ModelSpec& model, Flags& flags) {
  if (has_all_biases(model)) {
    if (model.moe_latent_size > 0) {
      flags.lacks("Megatron-LM's projections of moe_latent_size have biases beside other biases");
    }
    return;
  }
  flags.flag("disable-bias-linear");
  if (model.query_key_value_bias) flags.flag("add-qkv-bias");
  if (model.attention_out_bias) {
    flags.lacks("Megatron-LM has no bias of attention's output (attention_out_bias) alone");
  }
  if (model.mlp_bias && model.layers_with_dense() > 0) {
    flags.lacks("Megatron-LM has no biases of MLPs (mlp_bias) beside layers without biases");
  }
}

void add_block_shape(const ModelSpec& model, Flags& flags) {
  add_activation(model, flags);
  add_norms(model, flags);
  if (model.parallel_block) {
    flags.lacks("Megatron-LM has no branches beside each other (parallel_block)");
  }
  if (model.embedding_scale != 1.0 || model.residual_scale != 1.0 || model.logit_scale != 1.0) {
    flags.lacks(
        "Megatron-LM does not scale embeddings, branches or logits (embedding_scale, "
        "residual_scale, logit_scale)");
  }
  const bool scales_mlp = model.mlp_gate_scale != 1.0 || model.mlp_output_scale != 1.0;
  if (scales_mlp && model.layers_with_dense() > 0) {
    flags.lacks("Megatron-LM does not scale MLPs (mlp_gate_scale, mlp_output_scale)");
  }
}

}  // namespace shardsim
