#include "scenarios/field_table.hpp"

// Experts of a model, their routers, and how tokens are routed.
namespace shardsim {

namespace {

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

// A table with a row per field, not a function to follow. NOLINTNEXTLINE(readability-function-size)
std::vector<Field> expert_fields() {
  using M = ModelSpec;
  return {
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
      expert_field("model.moe_latent_size", &M::moe_latent_size)
          .range(0, kTwoTo20)
          .or_else("0")
          .doc("Above 0: experts read a projection of their token, of so many elements (Nemotron 3 "
               "Super). It travels to them, and a second projection reads the sum of their "
               "outputs. Router and shared expert read the token itself."),
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
  };
}

}  // namespace shardsim
