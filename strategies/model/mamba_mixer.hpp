#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "strategies/model/branch.hpp"
#include "strategies/model/causal_convolution.hpp"
#include "strategies/model/gated_norm.hpp"
#include "strategies/model/head_slices.hpp"
#include "strategies/model/make_model.hpp"
#include "strategies/model/state_space.hpp"

// Mamba-2, a mixer in place of attention. One projection makes the gate z, x, B, C and dt', each
// perhaps times a factor. x, B and C pass a causal convolution, the selective scan reads all but z,
// and its output is gated by z and normed, by groups of D / G channels, D = n_m p.
//
// Over t tensor-parallel ranks heads and groups are cut, with the messages of attention. Over c
// context-parallel ranks positions are exchanged for heads ahead of the convolution and back behind
// the scan; of fewer groups than ranks neighbours have copies. z stays, and the norm follows the
// way back, for a group may be of several ranks. A rank sends, per layer and microbatch, forward
// and again backward, with T tokens of its own,
//   T (D + 2 G N + n_m) / t (c-1)/c elements there, G / t at least c, and T D / t (c-1)/c back.
// Megatron-LM sends z there, too: it is gated within its kernel of the scan.
// Sources: Dao and Gu, "Transformers are SSMs" (2024); transformers, modeling_mamba2.py;
// Megatron-LM, mamba_mixer.py and mamba_context_parallel.py.
namespace shardsim {

class MambaMixer final : public RegionBranch {
 public:
  explicit MambaMixer(const ModelOptions& options);

  [[nodiscard]] OffloadModule stream_reader() const override { return OffloadModule::attn_norm; }
  [[nodiscard]] GraphModule graph_module() const override { return GraphModule::mamba; }
  [[nodiscard]] const char* dropout_stream() const override { return "mamba"; }
  [[nodiscard]] std::size_t num_inner() const override { return num_saved; }
  void add_parameters(ParameterTable& table, const std::string& name, int block) const override;
  [[nodiscard]] const char* columns() const override { return "mamba.w_in"; }
  [[nodiscard]] Row row(const Pass& /*pass*/) const override {
    return {sizes_.has_norm ? wo : norm, false, "mamba.wo", sizes_.output_scale};
  }
  [[nodiscard]] Tensor forward_inside(const Pass& pass, Tensor entered, BranchInput& x,
                                      std::span<Tensor> kept) const override;
  void drop_row_input(std::span<Tensor> kept, bool is_quantized) const override;
  [[nodiscard]] bool recomputes_row_input() const override;
  [[nodiscard]] Tensor row_input(const Pass& pass, std::span<Tensor> kept) const override;
  [[nodiscard]] ColumnLinears backward_inside(const Pass& pass, Tensor d,
                                              std::span<Tensor> kept) const override;
  /// 7 D N per token, as Megatron-LM counts the scan (training.py, mamba_layer_flops), which takes
  /// 2 h for D.
  [[nodiscard]] std::int64_t forward_flops_per_sample(int block) const override;

 private:
  enum Parameter : int {
    w_in,
    convolution,
    convolution_bias,
    a_log,
    dt_bias,
    d_skip,
    norm,  ///< Without it wo is in its place.
    wo,
  };
  enum Kept : std::size_t {
    projected,  ///< With z, or of the rank's heads and all positions, without.
    gate,       ///< z, where it stays behind.
    convolved,  ///< For the rank's heads and all positions; o and y are of its own.
    o,
    statistics,
    y,
    num_saved
  };

  // The heads of a rank in a pass: n_m / (t c).
  struct Heads;

  // In place: the parts of a whole projection, or of its gradient, times their factors.
  void scale_parts(const Heads& heads, const Pass& pass, const Tensor& whole) const;
  [[nodiscard]] Tensor convolve(const Heads& heads, const Pass& pass, const Tensor& in) const;
  [[nodiscard]] StateSpaceInput scan_input(const Heads& heads, const Tensor& in,
                                           const Tensor& made) const;
  [[nodiscard]] Tensor forward_scan(const Heads& heads, const Pass& pass,
                                    std::span<Tensor> kept) const;
  [[nodiscard]] Columns gate_of(const Heads& heads, std::span<Tensor> kept) const;
  [[nodiscard]] Tensor forward_norm(const Heads& heads, const Pass& pass,
                                    std::span<Tensor> kept) const;
  // Each from the gradient of what it made to that of what it read; parts of d_in are written.
  [[nodiscard]] Tensor backward_norm(const Heads& heads, const Pass& pass, const Tensor& d,
                                     std::span<Tensor> kept, const Tensor& d_in) const;
  [[nodiscard]] Tensor backward_scan(const Heads& heads, const Pass& pass, const Tensor& d,
                                     std::span<Tensor> kept, const Tensor& d_in) const;
  void backward_convolution(const Heads& heads, const Pass& pass, const Tensor& d,
                            std::span<Tensor> kept, const Tensor& d_in) const;

  ModelOptions options_;
  MambaOptions sizes_;
};

}  // namespace shardsim
