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

}  // namespace shardsim::testing
