#include <algorithm>
#include <vector>

#include "strategies/model/layer_options.hpp"

#include "scenarios/field_table.hpp"

namespace shardsim {
namespace {

// A row that only latent attention reads.
template <typename Member>
Field latent_field(const char* path, Member member) {
  return model_field(path, member).acts_when("kv_lora_rank is more than 0", [](const Scenario& s) {
    return s.model.is_latent();
  });
}

// Whether some layer attends without rotary positions.
bool has_unturned_attention(const Scenario& s) {
  const std::vector<LayerSpec>& layers = s.model.layers;
  return !s.model.is_latent() && std::any_of(layers.begin(), layers.end(), [](const auto& layer) {
    return has_mixer(layer.mixer, Mixer::attention) && !layer.rotary;
  });
}

bool is_transformer(const Scenario& s) { return s.model.family != ModelFamily::mlp; }

}  // namespace

std::vector<Field> document_fields() {
  return {
      loader_field("$schema").doc(
          "Where editors find the schema of this file; not read otherwise."),
      field("schema_version", &Scenario::schema_version)
          .range(1, 1)
          .required()
          .doc("Version of this format."),
      field("name", &Scenario::name)
          .or_else("\"unnamed scenario\"")
          .doc("A title for people; shown in reports."),
  };
}

namespace {

// A table with a row per field, not a function to follow. NOLINTNEXTLINE(readability-function-size)
std::vector<Field> plain_fields() {
  using M = ModelSpec;
  return {
      model_field("model.preset", &M::preset)
          .or_else("\"\"")
          .by_others()
          .doc("A model from `shardsim presets`; the other fields override it."),
      model_field("model.family", &M::family)
          .required()
          .same_as({{"Hugging Face", "model_type"}})
          .foreign({{"Hugging Face", "architectures"}})
          .doc("mlp: linear layers with ReLU. gpt2: layer norm, GELU, learned positions, biases. "
               "llama: RMS norm, SwiGLU, rotary positions, grouped-query heads, no biases, unless "
               "other fields say otherwise."),
      model_field("model.num_layers", &M::num_layers)
          .range(1, kTwoTo14)
          .derived("the length of layers; without a list it must be given")
          .sourced()
          .same_as({{"Hugging Face", "num_hidden_layers"},
                    {"Hugging Face", "n_layer"},
                    {"torchtitan", "n_layers"}})
          .doc("Transformer blocks; hidden layers of an mlp."),
      model_field("model.layers_cycle", &M::layers_cycle)
          .or_else("false")
          .doc("The list of layers starts again from its beginning until there are num_layers."),
      model_field("model.hidden_size", &M::hidden_size)
          .range(1, kTwoTo20)
          .required()
          .sourced()
          .same_as({{"Hugging Face", "n_embd"}, {"torchtitan", "dim"}, {"Hugging Face", "d_model"}})
          .doc("Width of the residual stream; inputs of an mlp."),
      model_field("model.ffn_hidden_size", &M::ffn_hidden_size)
          .range(1, kTwoTo22)
          .derived(
              "4 x hidden_size for gpt2 and mlp; llama must give it if a block has a dense MLP")
          .sourced()
          .same_as({{"Hugging Face", "intermediate_size"}, {"Hugging Face", "n_inner"}})
          .acts_when("some block has a dense MLP",
                     [](const Scenario& s) { return s.model.layers_with_dense() > 0; })
          .doc("Inner width of the feed-forward part."),
      model_field("model.num_attention_heads", &M::num_attention_heads)
          .range(1, kTwoTo20)
          .derived("none for mlp; transformers must give it")
          .sourced()
          .same_as({{"Hugging Face", "n_head"}, {"torchtitan", "n_heads"}})
          .doc("Query heads; they divide hidden_size, unless head_dim is given."),
      model_field("model.num_query_groups", &M::num_query_groups)
          .range(1, kTwoTo20)
          .derived("num_attention_heads")
          .sourced()
          .same_as({{"Hugging Face", "num_key_value_heads"}, {"torchtitan", "n_kv_heads"}})
          .doc(
              "Key and value heads; they divide num_attention_heads. gpt2 has one per query head."),
      model_field("model.head_dim", &M::head_dim)
          .range(1, kTwoTo14)
          .derived("hidden_size / num_attention_heads")
          .sourced()
          .same_as({{"Megatron-LM", "kv_channels"}, {"Hugging Face", "attention_head_dim"}})
          .doc(
              "Elements of a query, key or value head. All heads together may be wider or narrower "
              "than hidden_size."),
      model_field("model.value_head_dim", &M::value_head_dim)
          .range(1, kTwoTo14)
          .derived("head_dim; latent attention must give it")
          .sourced()
          .same_as({{"Hugging Face", "v_head_dim"}})
          .doc("Llama only. Elements of a value head, if they are not as many as of a key head."),
      model_field("model.kv_lora_rank", &M::kv_lora_rank)
          .range(0, kTwoTo20)
          .or_else("0")
          .sourced()
          .doc("Llama only. Above 0: latent attention; numbers per token for keys and values."),
      latent_field("model.q_lora_rank", &M::q_lora_rank)
          .range(0, kTwoTo20)
          .or_else("0")
          .sourced()
          .doc("Numbers per token for queries. 0: these read the block's input."),
      latent_field("model.qk_nope_head_dim", &M::qk_nope_head_dim)
          .range(1, kTwoTo14)
          .derived("latent attention must give it")
          .sourced()
          .same_as({{"Megatron-LM", "qk_head_dim"}})
          .doc("Elements of a query and key head of latent attention without rotary positions."),
      latent_field("model.qk_rope_head_dim", &M::qk_rope_head_dim)
          .range(2, kTwoTo14)
          .derived("latent attention must give it")
          .sourced()
          .same_as({{"Megatron-LM", "qk_pos_emb_head_dim"}})
          .doc("Elements behind them with rotary positions; in keys all heads share these."),
      model_field("model.vocab_size", &M::vocab_size)
          .range(1, kTwoTo24)
          .required()
          .sourced()
          .foreign({{"Megatron-LM", "padded_vocab_size"}})
          .doc("Tokens; classes of an mlp."),
      model_field("model.seq_len", &M::seq_len)
          .range(1, kTwoTo24)
          .unit("tokens")
          .derived("1 for mlp; transformers must give it")
          .sourced()
          .same_as({{"Megatron-LM", "seq_length"}, {"Megatron-LM", "sequence_length"}})
          .doc("Tokens per sequence in training."),
      model_field("model.max_position_embeddings", &M::max_position_embeddings)
          .range(1, kTwoTo24)
          .unit("tokens")
          .derived("seq_len")
          .sourced()
          .same_as({{"Hugging Face", "n_positions"}, {"Hugging Face", "n_ctx"}})
          .acts_when("family is gpt2",
                     [](const Scenario& s) { return s.model.family == ModelFamily::gpt2; })
          .doc("Rows of gpt2's position table; for llama the longest sequence it is meant for."),
      model_field("model.tied_embeddings", &M::tied_embeddings)
          .derived("true for gpt2, else false")
          .same_as({{"Hugging Face", "tie_word_embeddings"}})
          .foreign({{"Megatron-LM", "untie_embeddings_and_output_weights"}})
          .doc("The output projection is the token embedding."),
      model_field("model.norm_epsilon", &M::norm_epsilon)
          .above(0, 1)
          .or_else("1e-05")
          .sourced()
          .same_as({{"Hugging Face", "rms_norm_eps"},
                    {"Hugging Face", "layer_norm_epsilon"},
                    {"Megatron-LM", "layernorm_epsilon"},
                    {"torchtitan", "norm_eps"}})
          .acts_when("family is gpt2 or llama", is_transformer)
          .of_values()
          .doc("Added to the variance in layer norm and RMS norm."),
      model_field("model.rope_theta", &M::rope_theta)
          .above(0, 1e12)
          .or_else("10000")
          .sourced()
          .same_as({{"Megatron-LM", "rotary_base"}})
          .acts_when("family is llama",
                     [](const Scenario& s) { return s.model.family == ModelFamily::llama; })
          .of_values()
          .doc("Base of llama's rotary positions."),
      model_field("model.rotary_dim", &M::rotary_dim)
          .range(0, kTwoTo14)
          .derived("head_dim for llama, else 0")
          .sourced()
          .foreign({{"Hugging Face", "partial_rotary_factor"}, {"Megatron-LM", "rotary_percent"}})
          .doc("Llama only. Elements of each head, the first ones, that rotary positions turn: an "
               "even number, at least 2."),
      model_field("model.query_key_norm", &M::query_key_norm)
          .or_else("\"none\"")
          .same_as({{"torchtitan", "qk_norm"}})
          .foreign({{"Megatron-LM", "qk_layernorm"}, {"Hugging Face", "use_qk_norm"}})
          .doc(
              "Llama only. per_head: RMS norm over each query and key head in front of rotary "
              "positions. All heads share its weight of head_dim elements (Qwen3). whole: the same "
              "over all heads together, with a weight for each element (OLMo 2). weightless: over "
              "each head, behind rotary positions, in layers that have these (Llama 4)."),
      model_field("model.query_temperature_scale", &M::query_temperature_scale)
          .range(0, 1e6)
          .or_else("0")
          .same_as({{"Hugging Face", "attn_scale"}})
          .acts_when("some layer has no rotary positions, and kv_lora_rank is 0",
                     has_unturned_attention)
          .doc(
              "Llama only, in layers without rotary positions. The query at position p, from 0 on, "
              "is multiplied by 1 + this x ln(1 + floor((p + 1) / query_temperature_floor)) (Llama "
              "4). 0: queries stay."),
      model_field("model.query_temperature_floor", &M::query_temperature_floor)
          .range(1, kTwoTo24)
          .unit("tokens")
          .or_else("8192")
          .same_as({{"Hugging Face", "floor_scale"}})
          .acts_when("query_temperature_scale is more than 0",
                     [](const Scenario& s) { return s.model.query_temperature_scale > 0; })
          .of_values()
          .doc("Neighbouring positions whose queries are multiplied by the same factor."),
      model_field("model.query_key_value_bias", &M::query_key_value_bias)
          .derived("true for gpt2, else false")
          .same_as({{"Megatron-LM", "add_qkv_bias"}})
          .foreign({{"Hugging Face", "attention_bias"}})
          .doc("Queries, keys and values have biases (Qwen2). gpt2 always has them."),
      model_field("model.attention_out_bias", &M::attention_out_bias)
          .derived("true for gpt2, else false")
          .doc("The output projection of attention has a bias. gpt2 always has it."),
      model_field("model.attention_output_gate", &M::attention_output_gate)
          .or_else("false")
          .same_as({{"Hugging Face", "attn_output_gate"}})
          .doc("Llama only. The output of attention is multiplied, element by element, by the "
               "sigmoid of a linear layer of the block's input (Qwen3-Next)."),
      model_field("model.attention_head_gate", &M::attention_head_gate)
          .or_else("false")
          .same_as({{"Hugging Face", "use_head_wise_attn_gate"}})
          .doc("Llama only. The same with one number for each query head (Step 3.5)."),
      model_field("model.value_norm", &M::value_norm)
          .or_else("false")
          .doc("Llama only. Each value is divided by the root of its elements' mean square, "
               "without a weight (Gemma 4)."),
      model_field("model.value_scale", &M::value_scale)
          .above(0, 1e6)
          .or_else("1")
          .same_as({{"Hugging Face", "attention_value_scale"}})
          .doc("Llama only. Factor of the values of attention (MiMo-V2)."),
      model_field("model.attention_scale", &M::attention_scale)
          .range(0, 1e6)
          .or_else("0")
          .same_as({{"Megatron-LM", "softmax_scale"}, {"Hugging Face", "attention_multiplier"}})
          .of_values()
          .doc("Factor of the scores of queries and keys. 0: 1 / sqrt(head_dim)."),
      model_field("model.attention_logit_cap", &M::attention_logit_cap)
          .range(0, 1e6)
          .or_else("0")
          .same_as({{"Hugging Face", "attn_logit_softcapping"}})
          .of_values()
          .doc("Scores z become cap x tanh(z / cap) (Gemma 2). 0: they stay."),
      model_field("model.final_logit_cap", &M::final_logit_cap)
          .range(0, 1e6)
          .or_else("0")
          .same_as({{"Hugging Face", "final_logit_softcapping"}})
          .doc("The same for the logits of the head. 0: they stay."),
  };
}

}  // namespace

std::vector<Field> model_fields() {
  return joined(
      {plain_fields(),
       expert_fields(),
       {model_field("model.source", &ModelSpec::source)
            .or_else("\"\"")
            .doc("Source of this section's numbers, unless a number names its own."),
        model_field("model.not_modelled", &ModelSpec::not_modelled)
            .or_else("\"\"")
            .doc("What the published model has and this one has not. For readers only.")}});
}

}  // namespace shardsim
