#pragma once

#include <cstdint>

// A router makes scores of its logits z, chooses experts by them, and makes weights of those
// chosen.
namespace shardsim {

/// Score s of each expert.
enum class RouterScore : std::uint8_t {
  softmax,  ///< Over all experts: Mixtral, Qwen3, DeepSeek-V2.
  sigmoid,  ///< One for each logit alone: DeepSeek-V3, Kimi-K2, GLM-4.5, MiniMax-M2.
};

/// Score of a group of experts, from the scores of its experts.
enum class GroupScore : std::uint8_t {
  sum,      ///< Added up for the best experts_per_token / group_topk: Megatron-Core, DeepSeek-V3.
  maximum,  ///< The best one: DeepSeek-V2.
};

/// Defaults are Mixtral's router. A chosen expert's weight is scaling_factor x s, or where it is
/// normalised, scaling_factor x s / (sum of the chosen s). Sources: DeepSeek-AI, "DeepSeek-V3
/// Technical Report" (2024), section 2.1.2; Megatron-Core, moe_utils.py,
/// topk_routing_with_score_function.
struct RouterOptions {
  RouterScore score = RouterScore::softmax;
  bool normalised = true;
  double scaling_factor = 1.0;
  /// Equal runs of experts. A token goes to experts of its best `group_topk` groups alone.
  std::int64_t num_groups = 1;
  std::int64_t group_topk = 1;
  GroupScore group_score = GroupScore::sum;
  /// Above 0: experts are chosen by s + b, and after each step b_e grows by this x sign(mean load -
  /// load of e). Weights have no b in them. Source: Wang et al., "Auxiliary-Loss-Free Load
  /// Balancing Strategy for Mixture-of-Experts" (2024).
  double bias_update_rate = 0.0;
  bool has_logit_bias = false;  ///< The logits have a trained bias [E]: GPT-OSS.
  /// The weight multiplies an expert's input, not its output: Llama 4.
  bool weighs_input = false;
  /// Factor of the mean over tokens of (log of the sum of exp z)^2. Source: Zoph et al., "ST-MoE"
  /// (2022).
  double z_loss_coefficient = 0.0;

  [[nodiscard]] bool has_groups() const { return num_groups > 1; }
  [[nodiscard]] bool has_choice_bias() const { return bias_update_rate > 0.0; }
  [[nodiscard]] bool has_z_loss() const { return z_loss_coefficient > 0.0; }
};

}  // namespace shardsim
