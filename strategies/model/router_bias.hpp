#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/runtime.hpp"

// The biases b of the choice of experts, which balance loads without a loss. They are state of the
// training and no parameters: no gradient, optimizer, clipping or shard knows them. All ranks of a
// stage have the same. Source: Wang et al., "Auxiliary-Loss-Free Load Balancing Strategy for
// Mixture-of-Experts" (2024); Megatron-Core, moe_utils.py, get_updated_expert_bias.
namespace shardsim {

/// The bias of one layer.
struct RouterBiasSpec {
  int module = 0;    ///< Numbered in the whole model.
  int block = 0;     ///< Numbered in the whole model.
  std::string name;  ///< Fully qualified, as a parameter's.
  std::int64_t num_experts = 0;
  DType dtype = DType::fp32;
  double update_rate = 0.0;  ///< u
};

/// A rank's biases, and the loads of its experts in the current step.
class RouterBiases {
 public:
  /// Allocates all biases, 0 at first, and loads. REQUIRES: not called before, or with the same.
  void begin(Runtime& runtime, std::vector<RouterBiasSpec> specs);

  [[nodiscard]] const std::vector<RouterBiasSpec>& specs() const { return specs_; }
  [[nodiscard]] bool empty() const { return specs_.empty(); }
  /// [E] of layer `i`.
  [[nodiscard]] const Tensor& bias(std::size_t i) const { return biases_[i]; }
  /// A block's, [E]; undefined before begin().
  [[nodiscard]] Tensor bias_of(int block) const;
  /// Adds the slots `chosen` [n, k] of a microbatch. Does nothing before begin().
  void add_loads(Runtime& runtime, int block, const Tensor& chosen);
  /// [layers, E] int64: to be summed over all ranks that see other tokens, before update().
  [[nodiscard]] const Tensor& loads() const { return loads_; }

  /// b_e += u sign(mean load - load of e), sign(0) = 0, and loads are 0 again.
  void update(Runtime& runtime);
  void clear_loads(Runtime& runtime);

 private:
  std::vector<RouterBiasSpec> specs_;
  std::vector<Tensor> biases_;
  Tensor loads_;
};

}  // namespace shardsim
