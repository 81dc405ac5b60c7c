#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/enumerations.hpp"

namespace shardsim {

/// The network to train. The mlp family reads hidden_size inputs, has num_layers hidden layers of
/// ffn_hidden_size and vocab_size classes; it has no attention (heads and groups are 0).
struct ModelSpec {
  std::string preset;  // "" when the model is given inline
  ModelFamily family = ModelFamily::mlp;
  std::int64_t num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t ffn_hidden_size = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_query_groups = 0;  // key/value heads; divides num_attention_heads
  std::int64_t vocab_size = 0;
  std::int64_t seq_len = 0;                  // 1 for mlp
  std::int64_t max_position_embeddings = 0;  // rows of gpt2's learned position table; >= seq_len
  bool tied_embeddings = false;              // output projection shares the token embedding
  double norm_epsilon = 0;
  double rope_theta = 0;         // llama: base of the rotary embedding
  std::int64_t num_experts = 0;  // llama: in place of blocks' MLP; 0: none, nor what follows
  std::int64_t num_experts_per_token = 0;
  std::int64_t moe_ffn_hidden_size = 0;  // of one expert
  std::int64_t num_shared_experts = 0;   // one MLP of so many experts' size, always on
  std::int64_t first_dense_layers = 0;   // blocks at the start that keep the dense MLP
  double moe_capacity_factor = 0;        // 0: no token is dropped
  double moe_aux_loss_coeff = 0;         // of the load-balancing loss; 0: none
  RoutingKind moe_routing = RoutingKind::learned;
  double moe_skew = 0;  // skewed: exponent of Zipf's law
  std::string moe_popularity_file;
  std::vector<std::vector<double>> moe_popularity;  // file: of experts, for all layers or each
  std::string source;                               // where the shape comes from
};

}  // namespace shardsim
