#pragma once

#include <string>
#include <vector>

#include "strategies/model/query_key_norm.hpp"
#include "strategies/model/transformer_family.hpp"

// Attention with rotary positions, apart from what comes behind it in a block: RMS norm before the
// branch and grouped query heads; where asked for, biases, norms of queries and keys, sinks, and a
// gate of the output. Layers may have no rotary positions.
namespace shardsim {

/// Parameters of a block, in order; backward reports them in reverse. The first is the norm's.
/// Biases stand behind their weights.
struct RotaryPlaces {
  RotaryPlaces(const ModelOptions& options, int block);

  int wq = 0, wk = 0, wv = 0;
  int w_gate = 0;  ///< The gate of the output, if there is one.
  int norms = 0;   ///< Norms of queries and keys, if there are any.
  int sinks = -1;
  int wo = 0;
  int norm2 = 0;
  int mlp = 0;  ///< The first parameter behind attention and its next norm.
};

class RotaryAttention : public TransformerFamily {
 public:
  explicit RotaryAttention(const ModelOptions& options);

 protected:
  /// Adds the parameters up to the MLP's.
  void add_attention(ParameterTable& table, const std::string& name, int block) const;
  [[nodiscard]] const RotaryPlaces& at(const Pass& pass) const { return at_[to_size(pass.block)]; }
  [[nodiscard]] BlockPlaces places(int block) const override;
  [[nodiscard]] bool keeps_queries_and_keys() const override { return norms_.come_last(); }

 private:
  void forward_qkv(const Pass& pass, Saved& saved) const override;
  [[nodiscard]] Tensor backward_qkv(const Pass& pass, Qkv gradients, Saved& saved) const override;
  void forward_norms(const Pass& pass, Saved& saved) const;
  void backward_norms(const Pass& pass, Qkv& gradients, Saved& saved) const;
  [[nodiscard]] Tensor apply_projection(const Pass& pass, int k, const Tensor& x) const;
  [[nodiscard]] bool has_rotary(const Pass& pass) const {
    return options_.layer(pass.block).has_rotary;
  }
  [[nodiscard]] Rotary rotary(const Pass& pass) const;

  std::vector<RotaryPlaces> at_;  // One of each block.
  QueryKeyNorms norms_;
};

}  // namespace shardsim
