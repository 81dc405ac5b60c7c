#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "strategies/model/branch.hpp"
#include "strategies/model/causal_convolution.hpp"
#include "strategies/model/delta_rule.hpp"
#include "strategies/model/gated_norm.hpp"
#include "strategies/model/head_slices.hpp"
#include "strategies/model/make_model.hpp"

// Gated DeltaNet, a mixer in place of attention. One projection makes queries, keys, values, the
// gate z, beta' and a. The first three pass a causal convolution, the delta rule reads all but z,
// and its output is normed per head and gated by z.
//
// Over t tensor-parallel ranks heads are cut, with the messages of attention; the norm's weight
// [d_v], which all heads share, then has a part of its gradient on each. Over c context-parallel
// ranks positions are exchanged for heads ahead of the convolution and back behind the norm. A
// rank sends, per layer and microbatch, forward and again backward, with T tokens of its own,
//   T (2 n_k d_k + 2 n_v d_v + 2 n_v) / t (c-1)/c elements there and T n_v d_v / t (c-1)/c back.
// Sources: Yang, Kautz and Hatamizadeh, "Gated Delta Networks" (2024); transformers,
// modeling_qwen3_next.py, Qwen3NextGatedDeltaNet; Megatron-LM, gated_delta_net.py.
namespace shardsim {

class GatedDeltaNet final : public RegionBranch {
 public:
  explicit GatedDeltaNet(const ModelOptions& options);

  [[nodiscard]] OffloadModule stream_reader() const override { return OffloadModule::attn_norm; }
  [[nodiscard]] const char* dropout_stream() const override { return "delta_net"; }
  [[nodiscard]] std::size_t num_inner() const override { return num_saved; }
  void add_parameters(ParameterTable& table, const std::string& name, int block) const override;
  [[nodiscard]] const char* columns() const override { return "delta_net.w_in"; }
  [[nodiscard]] Row row(const Pass& /*pass*/) const override { return {wo, false, "delta_net.wo"}; }
  [[nodiscard]] Tensor forward_inside(const Pass& pass, Tensor entered, BranchInput& x,
                                      std::span<Tensor> kept) const override;
  void drop_row_input(std::span<Tensor> kept, bool is_quantized) const override;
  [[nodiscard]] bool recomputes_row_input() const override;
  [[nodiscard]] Tensor row_input(const Pass& pass, std::span<Tensor> kept) const override;
  [[nodiscard]] ColumnLinears backward_inside(const Pass& pass, Tensor d,
                                              std::span<Tensor> kept) const override;
  /// 8 d_v^2 per token and value head, as Megatron-LM counts (training.py,
  /// num_floating_point_operations): not the products that chunks need.
  [[nodiscard]] std::int64_t forward_flops_per_sample(int block) const override;

 private:
  enum Parameter : int { w_in, convolution, a_log, dt_bias, norm, wo };
  // All but y are of this rank's heads and, where they are exchanged, of all positions.
  enum Kept : std::size_t { projected, convolved, sums, inverse, o, statistics, y, num_saved };

  // The heads of a rank in a pass: n_k / (t c) and n_v / (t c).
  struct Heads;

  [[nodiscard]] Tensor convolve(const Heads& heads, const Pass& pass, const Tensor& in) const;
  [[nodiscard]] DeltaRuleInput rule_input(const Heads& heads, const Tensor& in,
                                          const Tensor& made) const;
  void forward_rule(const Heads& heads, const Pass& pass, std::span<Tensor> kept) const;
  [[nodiscard]] Tensor forward_norm(const Heads& heads, const Pass& pass,
                                    std::span<Tensor> kept) const;
  // Each from the gradient of what it made to that of what it read; parts of d_in are written.
  [[nodiscard]] Tensor backward_norm(const Heads& heads, const Pass& pass, const Tensor& d,
                                     std::span<Tensor> kept, const Tensor& d_in) const;
  [[nodiscard]] Tensor backward_rule(const Heads& heads, const Pass& pass, const Tensor& d,
                                     std::span<Tensor> kept, const Tensor& d_in) const;
  void backward_convolution(const Heads& heads, const Pass& pass, const Tensor& d,
                            std::span<Tensor> kept, const Tensor& d_in) const;

  ModelOptions options_;
  DeltaNetOptions sizes_;
};

}  // namespace shardsim
