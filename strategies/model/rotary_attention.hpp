#pragma once

#include <memory>
#include <string>
#include <vector>

#include "strategies/model/query_key_norm.hpp"
#include "strategies/model/self_attention.hpp"

// Attention with rotary positions and grouped query heads; where asked for, biases, norms of
// queries and keys, sinks, and a gate of the output. Layers may have no rotary positions, and
// queries that grow with their position instead.
namespace shardsim {

/// Its parameters in a block, in order; backward reports them in reverse. Biases stand behind their
/// weights.
struct RotaryPlaces {
  RotaryPlaces(const ModelOptions& options, int block, bool keys_are_values);

  int wq = 0, wk = 0;
  int wv = 0;      ///< That of keys, where these are the values.
  int w_gate = 0;  ///< The gate of the output, if there is one.
  int norms = 0;   ///< Norms of queries and keys, if there are any.
  int sinks = -1;
  int wo = 0;
};

class RotaryAttention final : public SelfAttention {
 public:
  /// For blocks with the heads of `options`; `keys_are_values`: see HeadOptions.
  explicit RotaryAttention(const ModelOptions& options, bool keys_are_values = false);

  [[nodiscard]] std::size_t num_inner() const override { return num_rotary_saved; }
  void add_parameters(ParameterTable& table, const std::string& name, int block) const override;
  [[nodiscard]] bool reads_by_linear() const override { return true; }
  [[nodiscard]] const char* columns() const override { return "attention.wq, wk, wv"; }
  [[nodiscard]] Row row(const Pass& pass) const override {
    return {at(pass).wo, options_.attention_out_bias, "attention.wo"};
  }

 private:
  enum RotaryKept : std::size_t {
    value_statistics = num_saved,  // The norm of values leaves them.
    num_rotary_saved,
  };

  [[nodiscard]] const RotaryPlaces& at(const Pass& pass) const { return at_[to_size(pass.block)]; }
  [[nodiscard]] bool keeps_queries_and_keys() const override { return norms_.come_last(); }
  [[nodiscard]] bool keeps_values() const override { return options_.value_norm; }
  [[nodiscard]] int sinks(const Pass& pass) const override { return at(pass).sinks; }
  void forward_qkv(const Pass& pass, Tensor entered, BranchInput& x,
                   std::span<Tensor> kept) const override;
  [[nodiscard]] ColumnLinears backward_qkv(const Pass& pass, Qkv gradients,
                                           std::span<Tensor> kept) const override;
  // Values, from their projection or from the keys' [b, s, g d_v].
  void forward_values(const Pass& pass, const Tensor& entered, std::span<Tensor> kept) const;
  // From the gradient of values to that of what they are made of.
  void backward_values(const Pass& pass, Tensor& d, std::span<Tensor> kept) const;
  void forward_norms(const Pass& pass, std::span<Tensor> kept) const;
  void backward_norms(const Pass& pass, Qkv& gradients, std::span<Tensor> kept) const;
  [[nodiscard]] Tensor apply_projection(const Pass& pass, int weight, const Tensor& x) const;
  [[nodiscard]] bool has_rotary(const Pass& pass) const {
    return options_.layer(pass.block).has_rotary;
  }
  [[nodiscard]] Rotary rotary(const Pass& pass) const;

  std::vector<RotaryPlaces> at_;  // One of each block.
  QueryKeyNorms norms_;
  bool keys_are_values_;
};

}  // namespace shardsim
