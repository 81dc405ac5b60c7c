#pragma once

#include <string>
#include <vector>

namespace shardsim::testing {

/// Settings for layers of gated DeltaNet and of Mamba-2, in turn.
inline std::vector<std::string> recurrent_layers() {
  return {"model.layers_cycle=true",
          R"(model.layers=[{"mixer": "delta_net"}, {"mixer": "mamba"}])",
          "model.linear_num_key_heads=4",
          "model.linear_num_value_heads=4",
          "model.linear_key_head_dim=4",
          "model.linear_value_head_dim=4",
          "model.mamba_num_heads=4",
          "model.mamba_head_dim=4",
          "model.mamba_state_size=4"};
}

/// Choices that act on those alone.
inline std::vector<std::string> recurrent_choices() {
  return {"model.linear_num_key_heads=2", "model.linear_num_value_heads=8",
          "model.linear_key_head_dim=3",  "model.linear_value_head_dim=3",
          "model.linear_conv_kernel=3",   "model.mamba_num_heads=8",
          "model.mamba_head_dim=3",       "model.mamba_num_groups=2",
          "model.mamba_state_size=3",     "model.mamba_conv_kernel=3",
          "model.mamba_chunk_size=3",     "model.mamba_norm=false",
          "model.mamba_z_scale=0.5",      "model.mamba_x_scale=0.5",
          "model.mamba_b_scale=0.5",      "model.mamba_c_scale=0.5",
          "model.mamba_dt_scale=0.5",     "model.mamba_output_scale=0.5"};
}

/// Settings for latent attention of valid_text()'s four heads.
inline std::vector<std::string> latent_attention() {
  return {"model.num_query_groups=4", "model.kv_lora_rank=10", "model.qk_nope_head_dim=4",
          "model.qk_rope_head_dim=2", "model.value_head_dim=5"};
}

}  // namespace shardsim::testing
