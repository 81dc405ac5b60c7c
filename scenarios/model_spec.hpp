#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "strategies/model/layer_options.hpp"
#include "strategies/model/linear_mixer_options.hpp"

#include "scenarios/enumerations.hpp"

// The model of a scenario.
namespace shardsim {

/// Neighbouring layers that are alike, of layers that differ.
struct LayerSpec {
  Mixer mixer{};                 // attention
  AttentionReach attention{};    // causal
  std::int64_t window_size = 0;  // sliding: positions, above 0; else 0
  std::int64_t chunk_size = 0;   // chunked: the same
  bool rotary = true;
  double rope_theta = 0;  // 0: the model's
  bool sinks = false;
  FeedForward feed_forward{};  // automatic: see ModelSpec::each_layer
  HeadOptions heads;           // where they are not the model's, see ModelSpec::heads_of
  std::int64_t repeats = 1;
};

/// The network to train. The mlp family reads hidden_size inputs, has num_layers hidden layers of
/// ffn_hidden_size and vocab_size classes; it has no attention (heads, groups and head_dim are 0).
struct ModelSpec {
  std::string preset;  // "" when the model is given inline
  ModelFamily family = ModelFamily::mlp;
  std::int64_t num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t ffn_hidden_size = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_query_groups = 0;  // key/value heads; divides num_attention_heads
  std::int64_t head_dim = 0;          // of a query or key head
  std::int64_t value_head_dim = 0;    // of a value head
  std::int64_t kv_lora_rank = 0;      // llama: of the latent of keys and values; 0: none
  std::int64_t q_lora_rank = 0;       // of the latent of queries, beside that one; 0: none
  std::int64_t qk_nope_head_dim = 0;  // with latents: parts of head_dim, without rotary positions
  std::int64_t qk_rope_head_dim = 0;  // and with them
  std::int64_t vocab_size = 0;
  std::int64_t seq_len = 0;                  // 1 for mlp
  std::int64_t max_position_embeddings = 0;  // rows of gpt2's learned position table; >= seq_len
  bool tied_embeddings = false;              // output projection shares the token embedding
  double norm_epsilon = 0;
  std::vector<LayerSpec> layers;             // empty: all are as LayerSpec{}
  bool layers_cycle = false;                 // the list starts again, until there are num_layers
  DeltaNetOptions delta_net;                 // of layers that mix by it
  MambaOptions mamba;                        // of layers that mix by it
  QueryKeyNorm query_key_norm{};             // none
  double query_temperature_scale = 0;        // llama, layers without rotary positions; 0: none
  std::int64_t query_temperature_floor = 0;  // positions with one factor
  bool query_key_value_bias = false;
  bool attention_out_bias = false;
  bool attention_output_gate = false;
  bool attention_head_gate = false;
  bool value_norm = false;
  double value_scale = 1;
  double attention_scale = 0;      // of scores; 0: 1 / sqrt(head_dim)
  double attention_logit_cap = 0;  // 0: none
  double final_logit_cap = 0;      // 0: none
  // The shape of a block.
  Activation activation{};         // relu; of the family
  double swiglu_limit = 0;         // clamped_swiglu
  bool mlp_bias = false;           // of dense MLPs
  double mlp_gate_scale = 1;       // of these, too: what their activation reads of the gate,
  double mlp_output_scale = 1;     // and what they return
  NormKind norm_kind{};            // rms_norm
  NormPlacement norm_placement{};  // pre
  bool norm_zero_centred = false;
  bool parallel_block = false;
  double embedding_scale = 1;
  double residual_scale = 1;
  double logit_scale = 1;
  double rope_theta = 0;         // llama: base of the rotary embedding
  std::int64_t rotary_dim = 0;   // llama: elements of a head that turn
  std::int64_t num_experts = 0;  // llama: in place of blocks' MLP; 0: none, nor what follows
  std::int64_t num_experts_per_token = 0;
  std::int64_t moe_ffn_hidden_size = 0;         // of one expert
  std::int64_t moe_latent_size = 0;             // of what experts read and write; 0: hidden_size
  bool moe_expert_bias = false;                 // on gate, up and down of each
  std::int64_t num_shared_experts = 0;          // one MLP of so many experts' size, always on
  std::int64_t moe_shared_ffn_hidden_size = 0;  // of that MLP: all else reads this
  bool moe_shared_gate = false;                 // weighs it, token by token
  std::int64_t first_dense_layers = 0;          // blocks at the start that keep the dense MLP
  double moe_capacity_factor = 0;               // 0: no token is dropped
  RouterScore moe_router_score{};               // softmax
  bool moe_router_normalised = true;            // weights of the chosen add up to the next
  double moe_router_scaling_factor = 1;
  double moe_router_bias_update_rate = 0;  // of biases of the choice; 0: none
  std::int64_t moe_router_num_groups = 1;
  std::int64_t moe_router_group_topk = 1;
  GroupScore moe_router_group_score{};  // sum
  bool moe_router_logit_bias = false;   // trained
  bool moe_weight_on_input = false;     // else on the output
  double moe_aux_loss_coeff = 0;        // of the load-balancing loss; 0: none
  double moe_z_loss_coeff = 0;          // of the squared log-sum-exp of logits; 0: none
  RoutingKind moe_routing = kDefaultRouting;
  double moe_skew = 0;  // exponent of Zipf's law, where the routing reads it
  std::string moe_popularity_file;
  ExpertWeights moe_popularity;        // what that file lists
  std::int64_t mtp_num_layers = 0;     // llama: depths of multi-token prediction; 0: none
  double mtp_loss_scaling_factor = 0;  // weight of their losses together
  std::string source;                  // where the shape comes from
  std::string not_modelled;            // what the published model has beside it

  /// Whether attention is latent.
  [[nodiscard]] bool is_latent() const { return kv_lora_rank > 0; }
  /// Whether tensor-parallel ranks have as many key and value heads each, or as many of them a copy
  /// of each head. The latter only the llama family has.
  [[nodiscard]] bool divides_groups(std::int64_t tp) const;
  /// The same of so many heads.
  [[nodiscard]] bool divides_groups(std::int64_t tp, std::int64_t groups) const;
  /// Those of one of such ranks; where layers differ, a number that divides those of all.
  [[nodiscard]] std::int64_t groups_of_rank(std::int64_t tp) const;
  /// One of the layers. REQUIRES: a list, 0 <= index < num_layers; a loaded scenario's model.
  const LayerSpec& layer(std::int64_t index) const;
  /// All layers, from the first to the last, in one pass. Each repeats once, and its feed-forward
  /// is said: `automatic` is experts in a model that has them, behind its first_dense_layers.
  void visit_layers(const std::function<void(const LayerSpec&)>& visit) const;
  /// The same as a list.
  std::vector<LayerSpec> each_layer() const;
  /// The heads of a layer with attention. REQUIRES: a loaded scenario's model, without latents.
  HeadOptions heads_of(const LayerSpec& layer) const;
  /// Heads that some layer with attention has, each kind once; the model's, if there is none.
  /// REQUIRES: as heads_of.
  std::vector<HeadOptions> kinds_of_heads() const;
  /// Whether the feed-forward of that layer is experts.
  bool has_experts(std::int64_t index) const;
  Mixer mixer_of(std::int64_t index) const;
  std::int64_t layers_with_experts() const;
  std::int64_t layers_with_dense() const;  // An MLP that all tokens pass.
  std::int64_t layers_mixed_by(Mixer mixer) const;
};

/// Trainable parameters without those of multi-token prediction, exact. With h = hidden_size, f =
/// ffn_hidden_size, L = num_layers, V = vocab_size, P = max_position_embeddings, a = head_dim x
/// num_attention_heads, k = head_dim x num_query_groups, v and y the same with value_head_dim:
///   gpt2:  V h + P h + L (4 h a + 3 a + 2 h f + 6 h + f) + 2 h   [+ V h if the embedding is not
///   tied]
///   llama: V h + L (h a + h k + h v + h y + 3 h f + 2 h) + h     [+ V h if the embedding is not
///   tied]
///   with norms of queries and keys per head 2 head_dim more in each layer, of the whole a + k,
///   with biases of attention a + k + v and h more, with an output gate h y, with sinks
///   num_attention_heads in layers that have them,
///   with a gate for each head h num_attention_heads more; of a layer with heads of its own those
///   count, without v where keys are values,
///   with latents of ranks q and r, d_n and d_r of a head, and n heads: in place of h (a + k + v)
///   h (r + d_r) + r + r n (d_n + value_head_dim), and for queries h a, or h q + q + q a if q > 0,
///   of which a block with E experts of width m and a shared one of width w has E h + 3 (E m + w) h
///   in place of 3 h f; with biases of experts E (2 m + h) more, of the router E, with a gate of
///   the shared one h; biases of the choice are not trained;
///   without a gate 2 in place of 3, with biases of dense MLPs 2 f + h (f + h without a gate), with
///   other norms than one RMS norm in front of each branch: h for each norm of h, 2 h if it has a
///   bias; a layer without attention or without a feed-forward has no norm for it; in place of
///   attention a layer of gated DeltaNet has delta_net_parameters(), of Mamba-2 mamba_parameters()
///   mlp:   h f + f + (L - 1) (f^2 + f) + f V + V
/// gpt2 has biases and two layer norms of 2 h in each layer: 3 a + 6 h + f = 4 h (norms) + 3 a
/// (query, key, value) + h (projection) + f (first linear) + h (second). Source: Radford et al.
/// 2019 and Touvron et al. 2023; tests/scenarios/preset_test.cpp compares it with published counts.
/// The ranges of the field table keep it within 64 bits. REQUIRES: a loaded scenario's model.
[[nodiscard]] std::int64_t num_parameters(const ModelSpec& model);

/// Those that multi-token prediction adds: of each depth 2 h^2 + 3 h, and a block as the last layer
/// is. Source: arXiv 2412.19437, section 2.2.
[[nodiscard]] std::int64_t num_mtp_parameters(const ModelSpec& model);

/// Both.
[[nodiscard]] inline std::int64_t all_parameters(const ModelSpec& model) {
  return num_parameters(model) + num_mtp_parameters(model);
}

}  // namespace shardsim
