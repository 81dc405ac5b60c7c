#pragma once

#include <cstdint>

#include "strategies/model/make_model.hpp"

// Latent attention, recurrences and factors, for models that small_model() makes.
namespace shardsim::test {

/// Latent attention with heads of 3 + 2 elements and values of 4; all sizes differ.
inline ModelOptions with_latents(ModelOptions options, std::int64_t query_rank) {
  options.num_query_groups = options.num_attention_heads;
  options.q_lora_rank = query_rank;
  options.kv_lora_rank = 6;
  options.qk_nope_head_dim = 3;
  options.qk_rope_head_dim = 2;
  options.value_head_dim = 4;
  return options;
}

/// Gated DeltaNet in front of attention, or Mamba-2 among blocks of one branch. All sizes differ
/// where they can; 2 divides what ranks cut.
inline ModelOptions with_mixers(ModelOptions options, bool has_mamba) {
  options.norm_epsilon = 0.01;  // Rows are of few small elements; else they bend too much.
  options.delta_net = {
      .key_heads = 2, .value_heads = 4, .key_size = 3, .value_size = 2, .conv_kernel = 3};
  options.mamba = {.num_heads = 4,
                   .head_size = 2,
                   .num_groups = 2,
                   .state_size = 3,
                   .conv_kernel = 3,
                   .chunk_size = 2};
  if (has_mamba) {
    options.num_layers = 3;
    options.layers = {{.mixer = Mixer::mamba, .feed_forward = FeedForward::none},
                      {.mixer = Mixer::none},
                      {.feed_forward = FeedForward::none}};
  } else {
    options.layers = {{.mixer = Mixer::delta_net}, {.mask = {AttentionReach::sliding, 2}}};
  }
  return options;
}

/// Factors of MLPs, whose biases they scale, too, and within Mamba-2. All differ.
inline ModelOptions with_factors(ModelOptions options) {
  options.mlp_bias = true;
  options.mlp_gate_scale = 0.8;
  options.mlp_output_scale = 1.5;
  options.mamba.z_scale = 0.6;
  options.mamba.x_scale = 0.7;
  options.mamba.b_scale = 1.25;
  options.mamba.c_scale = 0.9;
  options.mamba.dt_scale = 0.5;
  options.mamba.output_scale = 0.75;
  return options;
}

}  // namespace shardsim::test
