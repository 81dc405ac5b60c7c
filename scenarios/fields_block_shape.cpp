#include "strategies/model/feed_forward_activation.hpp"

#include "scenarios/field_table.hpp"

// Activations, norms, the order of branches, and factors.
namespace shardsim {
namespace {

template <typename Member>
Field shape_field(const char* path, Member member) {
  return field(path, &Scenario::model, member);
}

}  // namespace

// A table with a row per field, not a function to follow. NOLINTNEXTLINE(readability-function-size)
std::vector<Field> block_shape_fields() {
  using M = ModelSpec;
  return {
      shape_field("model.activation", &M::activation)
          .derived("swiglu for llama, gelu_tanh for gpt2, relu for mlp")
          .foreign({{"Hugging Face", "hidden_act"},
                    {"Hugging Face", "hidden_activation"},
                    {"Hugging Face", "mlp_hidden_act"},
                    {"Megatron-LM", "swiglu"},
                    {"Megatron-LM", "squared_relu"}})
          .doc("Activation of MLPs and experts. Llama has any but relu. swiglu, geglu_tanh (Gemma) "
               "and clamped_swiglu (GPT-OSS) are gated: they take three matrices. gelu_tanh and "
               "squared_relu (Nemotron) take two."),
      shape_field("model.swiglu_limit", &M::swiglu_limit)
          .above(0, 1e6)
          .or_else("7")
          .foreign({{"Megatron-LM", "activation_func_clamp_value"}})
          .acts_when(
              "activation is clamped_swiglu",
              [](const Scenario& s) { return s.model.activation == Activation::clamped_swiglu; })
          .of_values()
          .doc("clamped_swiglu: g = min(gate, this), u = up clipped at plus and minus this, and (u "
               "+ 1) g sigmoid(1.702 g). Nothing flows back through what is clipped."),
      shape_field("model.mlp_bias", &M::mlp_bias)
          .derived("true for gpt2 and mlp, else false")
          .acts_when("some block has a dense MLP",
                     [](const Scenario& s) { return s.model.layers_with_dense() > 0; })
          .doc("The matrices of dense MLPs have biases; see moe_expert_bias for those of experts."),
      shape_field("model.mlp_gate_scale", &M::mlp_gate_scale)
          .above(0, 1e6)
          .or_else("1")
          .foreign({{"Hugging Face", "mlp_multipliers"}})
          .acts_when("some block has a dense MLP with a gate",
                     [](const Scenario& s) {
                       return s.model.layers_with_dense() > 0 &&
                              ActivationForm{s.model.activation}.is_gated();
                     })
          .doc("Llama only. Factor of the gate of dense MLPs, ahead of the activation "
               "(Falcon-H1)."),
      shape_field("model.mlp_output_scale", &M::mlp_output_scale)
          .above(0, 1e6)
          .or_else("1")
          .acts_when("some block has a dense MLP",
                     [](const Scenario& s) { return s.model.layers_with_dense() > 0; })
          .doc("Llama only. Factor of the output of dense MLPs, with its bias (Falcon-H1)."),
      shape_field("model.norm_kind", &M::norm_kind)
          .derived("layer_norm for gpt2, else rms_norm")
          .foreign({{"Megatron-LM", "normalization"}})
          .doc("Norms of the residual stream. Layer norm has a bias, unless it says otherwise "
               "(Command A)."),
      shape_field("model.norm_placement", &M::norm_placement)
          .or_else("\"pre\"")
          .doc(
              "Llama only. pre: each branch reads a norm of the stream. post: its output is normed "
              "instead (OLMo 2). sandwich: both (Gemma 2)."),
      shape_field("model.norm_zero_centred", &M::norm_zero_centred)
          .or_else("false")
          .same_as({{"Megatron-LM", "layernorm_zero_centered_gamma"}})
          .foreign({{"Megatron-LM", "apply_layernorm_1p"}})
          .of_values()
          .doc("Llama only. Norms multiply by 1 + weight, and weights start at 0 (Gemma). Norms of "
               "queries and keys, too."),
      shape_field("model.parallel_block", &M::parallel_block)
          .or_else("false")
          .same_as({{"Hugging Face", "parallel_attn"}})
          .doc("Llama only. Attention and MLP read one norm and join the stream together (Command "
               "A): half as many sums among tensor-parallel ranks."),
      shape_field("model.embedding_scale", &M::embedding_scale)
          .above(0, 1e6)
          .or_else("1")
          .same_as({{"Hugging Face", "embedding_multiplier"}})
          .doc("Llama only. Factor of the tokens' embeddings, such as sqrt(hidden_size) in Gemma."),
      shape_field("model.residual_scale", &M::residual_scale)
          .above(0, 1e6)
          .or_else("1")
          .same_as({{"Hugging Face", "residual_multiplier"}})
          .doc("Llama only. Factor of each branch before it joins the stream (Granite)."),
      shape_field("model.logit_scale", &M::logit_scale)
          .above(0, 1e6)
          .or_else("1")
          .foreign({{"Hugging Face", "logits_scaling"}})
          .doc("Llama only. Factor of the head's logits, before final_logit_cap (Command A). "
               "Granite "
               "writes its reciprocal."),
  };
}

}  // namespace shardsim
