#include <cmath>
#include <string>

#include <fmt/format.h>

#include "strategies/model/make_model.hpp"

#include "scenarios/formats/emit_flags.hpp"
#include "scenarios/formats/megatron.hpp"

// A model in the flags of Megatron-LM's pretrain_gpt.py, as megatron/training/arguments.py has
// them, and as the fields of its TransformerConfig become flags.
namespace shardsim {

namespace {

// Megatron-LM multiplies scores by mscale^2 / sqrt(elements of a head), mscale = 0.1 mscale_all_dim
// ln(rotary_scaling_factor) + 1, whatever turns: MultiLatentAttention in its
// megatron/core/transformer/multi_latent_attention.py.
void add_latent_scale(const ModelSpec& model, Flags& flags) {
  constexpr double kFactor = 40.0;
  const double mscale =
      std::sqrt(model.attention_scale * std::sqrt(static_cast<double>(model.head_dim)));
  if (mscale < 1.0) {
    flags.lacks(
        "Megatron-LM makes scores of latent attention no smaller than 1 / sqrt(head) times "
        "their size (attention_scale)");
    return;
  }
  flags.flag("rotary-scaling-factor", kFactor);
  flags.flag("mscale-all-dim", (mscale - 1.0) / (0.1 * std::log(kFactor)));
}

void add_latents(const ModelSpec& model, Flags& flags) {
  flags.flag("multi-latent-attention");
  if (model.q_lora_rank > 0) flags.flag(megatron::kQueryLatent, model.q_lora_rank);
  flags.flag(megatron::kKeyLatent, model.kv_lora_rank);
  flags.flag(megatron::kOwnHead, model.qk_nope_head_dim);
  flags.flag(megatron::kTurnedHead, model.qk_rope_head_dim);
  flags.flag(megatron::kValueHead, model.value_head_dim);
  flags.flag("qk-layernorm");  // Here: the norms of the latents.
  flags.flag("rope-type", "rope");
  if (model.attention_scale > 0) add_latent_scale(model, flags);
}

void add_attention(const ModelSpec& model, Flags& flags) {
  if (model.is_latent()) {
    add_latents(model, flags);
  } else if (model.value_head_dim != model.head_dim) {
    flags.lacks(
        "Megatron-LM has values of another size for latent attention only (value_head_dim)");
  }
  if (model.query_key_norm == QueryKeyNorm::per_head) flags.flag("qk-layernorm");
  if (model.query_key_norm == QueryKeyNorm::weightless) flags.flag("qk-l2-norm");
  if (model.query_key_norm == QueryKeyNorm::whole) {
    flags.lacks("Megatron-LM norms each head alone (query_key_norm whole)");
  }
  if (model.query_temperature_scale > 0) {
    flags.lacks("Megatron-LM does not scale queries by position (query_temperature_scale)");
  }
  if (model.attention_output_gate) flags.flag("attention-output-gate");
  if (model.attention_head_gate) {
    flags.lacks("Megatron-LM gates attention element by element (attention_head_gate)");
  }
  if (model.value_norm || model.value_scale != 1.0) {
    flags.lacks("Megatron-LM neither norms nor scales values (value_norm, value_scale)");
  }
  if (model.attention_scale > 0 && !model.is_latent())
    flags.flag("softmax-scale", fmt::format("{}", model.attention_scale));
  if (model.attention_logit_cap > 0 || model.final_logit_cap > 0) {
    flags.lacks(
        "Megatron-LM caps neither scores nor logits (attention_logit_cap, final_logit_cap)");
  }
  if (model.mtp_num_layers > 0) {
    flags.flag("mtp-num-layers", model.mtp_num_layers);
    flags.flag("mtp-loss-scaling-factor", model.mtp_loss_scaling_factor);
  }
}

// The router. Its weights are not normalised, in softmax where they are those of all experts, in
// sigmoids where there is but one.
void add_router(const ModelSpec& model, Flags& flags) {
  const bool is_sigmoid = model.moe_router_score == RouterScore::sigmoid;
  const bool is_alone = model.num_experts_per_token == 1;
  if (is_sigmoid) flags.flag("moe-router-score-function", "sigmoid");
  if (!is_sigmoid && !model.moe_router_normalised) flags.flag("moe-router-pre-softmax");
  if (is_sigmoid ? model.moe_router_normalised == is_alone
                 : model.moe_router_normalised && is_alone) {
    flags.lacks(
        fmt::format("Megatron-LM has no moe_router_normalised {} of {} with {} expert{} per "
                    "token",
                    model.moe_router_normalised, to_string(model.moe_router_score),
                    model.num_experts_per_token, is_alone ? "" : "s"));
  }
  if (model.moe_router_scaling_factor != 1.0) {
    flags.flag("moe-router-topk-scaling-factor", model.moe_router_scaling_factor);
  }
  if (model.moe_router_bias_update_rate > 0.0 && is_sigmoid) {
    flags.flag("moe-router-enable-expert-bias");
    flags.flag("moe-router-bias-update-rate", model.moe_router_bias_update_rate);
  } else if (model.moe_router_bias_update_rate > 0.0) {
    flags.lacks(
        "Megatron-LM has biases of the choice (moe_router_bias_update_rate) for sigmoids only");
  }
  if (model.moe_router_num_groups > 1) {
    flags.flag("moe-router-num-groups", model.moe_router_num_groups);
    flags.flag("moe-router-group-topk", model.moe_router_group_topk);
    if (model.moe_router_group_score == GroupScore::maximum &&
        model.num_experts_per_token > model.moe_router_group_topk) {
      flags.lacks(
          "Megatron-LM has no moe_router_group_score maximum: it adds a group's best experts");
    }
  }
  if (model.moe_weight_on_input) flags.flag("moe-apply-probs-on-input");
  if (model.moe_z_loss_coeff > 0.0) flags.flag("moe-z-loss-coeff", model.moe_z_loss_coeff);
  if (model.moe_router_logit_bias) {
    flags.lacks("Megatron-LM has no trained bias of the router (moe_router_logit_bias)");
  }
}

}  // namespace

void add_model(const ModelSpec& model, Flags& flags) {
  const bool is_llama = model.family == ModelFamily::llama;
  if (!is_lettered(model)) flags.flag(megatron::kLayers, model.num_layers);
  flags.flag(megatron::kHidden, model.hidden_size);
  if (model.ffn_hidden_size > 0) flags.flag(megatron::kFfn, model.ffn_hidden_size);
  flags.flag(megatron::kHeads, model.num_attention_heads);
  if (model.num_query_groups != model.num_attention_heads) {
    flags.flag("group-query-attention");
    flags.flag(megatron::kGroups, model.num_query_groups);
  }
  if (!model.is_latent() && model.head_dim * model.num_attention_heads != model.hidden_size) {
    flags.flag(megatron::kHeadDim, model.head_dim);
  }
  add_attention(model, flags);
  flags.flag(megatron::kLength, model.seq_len);
  flags.flag(megatron::kPositions, model.max_position_embeddings);
  if (is_llama) {
    const bool turns = turns_in_some_layer(model);
    add_block_shape(model, flags);
    flags.flag("position-embedding-type", turns ? "rope" : "none");
    if (turns) flags.flag(megatron::kRotaryBase, static_cast<std::int64_t>(model.rope_theta));
    if (turns && !model.is_latent() && model.rotary_dim != model.head_dim) {
      flags.flag("rotary-percent", fmt::format("{}", static_cast<double>(model.rotary_dim) /
                                                         static_cast<double>(model.head_dim)));
    }
    add_biases(model, flags);
  }
  flags.flag("norm-epsilon", model.norm_epsilon);
  if (!model.tied_embeddings) flags.flag(megatron::kUntied);
}

void add_experts(const ModelSpec& model, Flags& flags) {
  if (model.num_experts == 0) return;
  flags.flag(megatron::kExperts, model.num_experts);
  flags.flag(megatron::kTopK, model.num_experts_per_token);
  flags.flag(megatron::kExpertFfn, model.moe_ffn_hidden_size);
  if (model.moe_latent_size > 0) flags.flag(megatron::kExpertLatent, model.moe_latent_size);
  flags.flag("moe-grouped-gemm");
  if (model.moe_shared_ffn_hidden_size > 0) {
    flags.flag(megatron::kSharedFfn, model.moe_shared_ffn_hidden_size);
    if (model.moe_shared_gate) flags.flag("moe-shared-expert-gate");
  }
  if (model.moe_expert_bias && !has_all_biases(model)) {
    flags.lacks(
        "Megatron-LM has no biases of experts (moe_expert_bias) beside layers without biases");
  }
  add_router(model, flags);
}

}  // namespace shardsim
