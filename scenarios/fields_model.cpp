#include "scenarios/field_table.hpp"

namespace shardsim {
namespace {

template <typename Member>
Field model_field(const char* path, Member member) {
  return field(path, &Scenario::model, member);
}

bool has_experts(const Scenario& s) { return s.model.num_experts > 0; }

// A row that only a model with experts reads.
template <typename Member>
Field expert_field(const char* path, Member member) {
  return model_field(path, member).acts_when("num_experts is more than 0", has_experts);
}

bool has_shared_experts(const Scenario& s) {
  return has_experts(s) && s.model.moe_shared_ffn_hidden_size > 0;
}
bool has_groups(const Scenario& s) { return has_experts(s) && s.model.moe_router_num_groups > 1; }
bool has_skew(const Scenario& s) {
  return has_experts(s) && routing_row(s.model.moe_routing).reads_skew;
}
bool has_popularity(const Scenario& s) {
  return has_experts(s) && routing_row(s.model.moe_routing).reads_popularity;
}
// " uniform: equal shares. skewed: ..." of the kinds with a trait.
std::string meanings_of_routings(RoutingTrait has) {
  std::string words;
  for (const RoutingRow& row : routing_rows()) {
    if (has(row)) words += " " + std::string(row.name) + ": " + std::string(row.meaning) + ".";
  }
  return words;
}

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

// A table with a row per field, not a function to follow. NOLINTNEXTLINE(readability-function-size)
std::vector<Field> model_fields() {
  using M = ModelSpec;
  return {
      model_field("model.preset", &M::preset)
          .or_else("\"\"")
          .doc("A model from `shardsim presets`; the other fields override it."),
      model_field("model.family", &M::family)
          .required()
          .same_as({{"Hugging Face", "model_type"}})
          .foreign({{"Hugging Face", "architectures"}})
          .doc("mlp: linear layers with ReLU. gpt2: layer norm, GELU, learned positions, biases. "
               "llama: RMS norm, SwiGLU, rotary positions, grouped-query heads, no biases."),
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
          .derived("4 x hidden_size for gpt2 and mlp; llama must give it")
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
          .acts_when("family is gpt2 or llama",
                     [](const Scenario& s) { return s.model.family != ModelFamily::mlp; })
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
      model_field("model.num_experts", &M::num_experts)
          .range(0, kTwoTo14)
          .or_else("0")
          .sourced()
          .same_as({{"Hugging Face", "num_local_experts"},
                    {"Hugging Face", "n_routed_experts"},
                    {"Megatron-LM", "num_moe_experts"}})
          .doc("llama: experts in place of a block's MLP; each token passes through some of them. "
               "0: none."),
      expert_field("model.num_experts_per_token", &M::num_experts_per_token)
          .range(1, kTwoTo14)
          .or_else("2")
          .sourced()
          .same_as({{"Hugging Face", "num_experts_per_tok"},
                    {"Megatron-LM", "moe_router_topk"},
                    {"torchtitan", "top_k"}})
          .doc("Experts per token. By default their outputs are weighed by the softmax of their "
               "logits alone, as in Mixtral; see moe_router_score."),
      expert_field("model.moe_ffn_hidden_size", &M::moe_ffn_hidden_size)
          .range(1, kTwoTo22)
          .derived("ffn_hidden_size")
          .sourced()
          .same_as({{"Hugging Face", "moe_intermediate_size"}})
          .doc("Inner width of one expert."),
      expert_field("model.moe_expert_bias", &M::moe_expert_bias)
          .or_else("false")
          .doc("Gate, up and down of each expert have biases (GPT-OSS)."),
      expert_field("model.num_shared_experts", &M::num_shared_experts)
          .range(0, 1024)
          .or_else("0")
          .sourced()
          .same_as({{"Hugging Face", "n_shared_experts"}})
          .doc("Beside the routed experts, one dense MLP of so many experts' width, which all "
               "tokens pass. moe_shared_ffn_hidden_size can say any other width."),
      expert_field("model.moe_shared_ffn_hidden_size", &M::moe_shared_ffn_hidden_size)
          .range(0, kTwoTo24)
          .derived("num_shared_experts x moe_ffn_hidden_size")
          .same_as({{"Hugging Face", "shared_expert_intermediate_size"},
                    {"Megatron-LM", "moe_shared_expert_intermediate_size"}})
          .doc("Inner width of the MLP that all tokens pass beside the routed experts. 0: none."),
      model_field("model.moe_shared_gate", &M::moe_shared_gate)
          .or_else("false")
          .same_as({{"Megatron-LM", "moe_shared_expert_gate"}})
          .acts_when("there is a shared expert", has_shared_experts)
          .doc("The shared expert's output is multiplied by sigmoid(w . x), token by token "
               "(Qwen2-MoE)."),
      expert_field("model.first_dense_layers", &M::first_dense_layers)
          .range(0, kTwoTo14)
          .or_else("0")
          .sourced()
          .same_as({{"Hugging Face", "first_k_dense_replace"}})
          .doc("Blocks at the start that keep the dense MLP of ffn_hidden_size."),
      expert_field("model.moe_capacity_factor", &M::moe_capacity_factor)
          .range(0, 1024)
          .or_else("0")
          .same_as({{"Megatron-LM", "moe_expert_capacity_factor"}})
          .foreign({{"DeepSpeed", "capacity_factor"}})
          .doc("0: every token reaches its experts. Else each rank sends an expert ceil(tokens x "
               "num_experts_per_token / num_experts x this) rows of a microbatch, filled up if "
               "there are fewer; what is beyond is dropped, in the order of tokens."),
      expert_field("model.moe_router_score", &M::moe_router_score)
          .or_else("\"softmax\"")
          .same_as({{"Megatron-LM", "moe_router_score_function"}, {"Hugging Face", "scoring_func"}})
          .of_values()
          .doc("Score of each expert, of the router's logits. softmax: over all experts. sigmoid: "
               "of "
               "its logit alone (DeepSeek-V3). A token goes to the experts with the best scores, "
               "whose weights are made of their scores."),
      expert_field("model.moe_router_normalised", &M::moe_router_normalised)
          .or_else("true")
          .same_as({{"Hugging Face", "norm_topk_prob"}})
          .foreign({{"Megatron-LM", "moe_router_pre_softmax"}})
          .of_values()
          .doc("Scores of a token's experts are divided by their sum."),
      expert_field("model.moe_router_scaling_factor", &M::moe_router_scaling_factor)
          .above(0, 1024)
          .or_else("1")
          .same_as({{"Megatron-LM", "moe_router_topk_scaling_factor"},
                    {"Hugging Face", "routed_scaling_factor"}})
          .of_values()
          .doc("Factor of all weights of routed experts."),
      expert_field("model.moe_router_bias_update_rate", &M::moe_router_bias_update_rate)
          .range(0, 1)
          .or_else("0")
          .foreign({{"Megatron-LM", "moe_router_enable_expert_bias"}})
          .doc("Above 0: experts are chosen by score + b, and after each step the b of an expert "
               "grows by this if its load is below the mean, and falls if it is above. Loads are "
               "those of all tokens of the step. No weight of an expert has b in it, and no "
               "optimizer changes it (arXiv 2408.15664)."),
      expert_field("model.moe_router_num_groups", &M::moe_router_num_groups)
          .range(1, kTwoTo14)
          .or_else("1")
          .same_as({{"Hugging Face", "n_group"}})
          .of_values()
          .doc("Equal groups of experts. A token goes to experts of its moe_router_group_topk best "
               "groups alone, if routing is learned."),
      model_field("model.moe_router_group_topk", &M::moe_router_group_topk)
          .range(1, kTwoTo14)
          .or_else("1")
          .same_as({{"Hugging Face", "topk_group"}})
          .acts_when("moe_router_num_groups is more than 1", has_groups)
          .of_values()
          .doc("Groups per token. It divides num_experts_per_token."),
      model_field("model.moe_router_group_score", &M::moe_router_group_score)
          .or_else("\"sum\"")
          .acts_when("moe_router_num_groups is more than 1", has_groups)
          .of_values()
          .doc("Score of a group. sum: of its best num_experts_per_token / moe_router_group_topk "
               "experts (Megatron-LM, DeepSeek-V3). maximum: of its best one (DeepSeek-V2)."),
      expert_field("model.moe_router_logit_bias", &M::moe_router_logit_bias)
          .or_else("false")
          .doc("The router's logits have a trained bias (GPT-OSS)."),
      expert_field("model.moe_weight_on_input", &M::moe_weight_on_input)
          .or_else("false")
          .same_as({{"Megatron-LM", "moe_apply_probs_on_input"}})
          .doc("An expert's weight multiplies its input, not its output (Llama 4). Needs "
               "num_experts_per_token 1."),
      expert_field("model.moe_z_loss_coeff", &M::moe_z_loss_coeff)
          .range(0, 1024)
          .or_else("0")
          .doc("Coefficient of the z-loss: the mean over tokens of the squared log of the sum of "
               "exp(logit), per layer and microbatch of all data-parallel ranks; layers add up. It "
               "is part of gradients, not of the loss shown (arXiv 2202.08906)."),
      expert_field("model.moe_aux_loss_coeff", &M::moe_aux_loss_coeff)
          .range(0, 1024)
          .or_else("0")
          .doc(
              "Coefficient of the load-balancing loss: num_experts x the sum over experts of their "
              "share of tokens x their mean probability (of sigmoid scores: score / their sum), "
              "per "
              "layer and microbatch of all data-parallel ranks; layers add up. It is part of "
              "gradients, not of the loss shown. "
              "Hugging Face's router_aux_loss_coef is of a mean over layers, with shares that add "
              "up to k experts per token: times k / num_layers it is this."),
      expert_field("model.moe_routing", &M::moe_routing)
          .or_else("\"" + std::string(to_string(kDefaultRouting)) + "\"")
          .doc("Which experts tokens go to." + meanings_of_routings(is_learned) +
               " The others declare it, as a function of layer and position." +
               meanings_of_routings(is_declared) + " The router weighs the experts in any case."),
      model_field("model.moe_skew", &M::moe_skew)
          .range(0, 16)
          .or_else("1")
          .acts_when("moe_routing is " + routings_that(reads_skew), has_skew)
          .doc("Exponent of Zipf's law: expert i of a layer gets a share in proportion to 1 / (i + "
               "1)^this. 0: equal shares."),
      model_field("model.moe_popularity_file", &M::moe_popularity_file)
          .or_else("\"\"")
          .acts_when("moe_routing is " + routings_that(reads_popularity), has_popularity)
          .doc("A JSON file, beside the scenario or from the current folder: a list of num_experts "
               "weights of 0 or more, or such a list for each layer with experts."),
      model_field("model.source", &M::source)
          .or_else("\"\"")
          .doc("Source of this section's numbers, unless a number names its own."),
  };
}

}  // namespace shardsim
