#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "strategies/model/branch.hpp"
#include "strategies/model/make_model.hpp"

// A block of a transformer: branches one behind the other, each of which reads a norm of the
// residual stream x and joins it, x + scale dropout(branch(norm(x))). Other placements put a norm
// behind the branch, too, or there alone: see NormPlacement. Most blocks have a mixer and then a
// feed-forward.
namespace shardsim {

/// x [b, s, h], or with sequence parallelism this rank's tokens [b s / t, h]; with context
/// parallelism s is this rank's share.
class TransformerBlock {
 public:
  using Branches = std::vector<std::shared_ptr<const Branch>>;
  struct Id {
    int number;
    std::string name;  ///< Names of parameters start with it.
  };

  /// Adds the block's parameters to `table`: of each branch those of its norms, then its own. They
  /// are a unit, which was begun; more may follow it.
  TransformerBlock(const ModelOptions& options, const ModelNorm& norm, Branches branches,
                   ParameterTable& table, const Id& id);

  /// With full recomputation x alone is kept.
  [[nodiscard]] Tensor forward(const Pass& pass, const Tensor& x, Saved& saved) const;
  [[nodiscard]] Tensor backward(const Pass& pass, const Tensor& dy, Saved& saved) const;
  /// Tensors kept for backward.
  [[nodiscard]] std::size_t num_kept() const { return recomputes_all_ ? 1 : num_saved_; }
  /// For the input of which part each of them stays.
  [[nodiscard]] std::vector<OffloadModule> readers_of_kept() const;
  /// Flops of forward for one whole sample, beside those of the products with matrices.
  [[nodiscard]] std::int64_t forward_flops_per_sample() const;
  /// Whether forward leaves more to backward than tensors.
  [[nodiscard]] bool keeps_state() const;

 private:
  // Tensors kept for a branch; its own are behind them.
  enum BranchSaved : std::size_t {
    input,
    norm_output,
    norm_statistics,
    quantized,  // The columns that weights' gradients read of the branch's input.
    masks,
    norms_beside,  // Memory that a framework keeps for norms.
    output,        // The input of the norm behind the branch.
    output_statistics,
    num_saved
  };
  struct Place {
    int norm = 0;  // Numbers of parameters in the block.
    int output_norm = 0;
    int branch = 0;
    std::size_t saved = 0;  // The first tensor.
  };

  [[nodiscard]] Tensor run_forward(const Pass& pass, const Tensor& x, Saved& saved) const;
  // The same for `saved` alone.
  void recompute(const Pass& pass, const Tensor& x, Saved& saved) const;
  // The branch's output, or undefined where only what backward reads is made.
  [[nodiscard]] Tensor run_branch(const Pass& pass, std::size_t i, const Tensor& stream,
                                  bool refills, Saved& saved) const;
  [[nodiscard]] BranchInput input_of(const Pass& pass, const Branch& branch, const Place& at,
                                     Saved& saved) const;
  // From a branch's output to the tensor that joins the stream, and back. `here`: the branch's.
  [[nodiscard]] Tensor join(const Pass& pass, const Branch& branch, const Place& at, Tensor y,
                            Tensor* here) const;
  [[nodiscard]] Tensor join_backward(const Pass& pass, const Branch& branch, const Place& at,
                                     const Tensor& dy, Tensor* here) const;
  [[nodiscard]] bool has_input_norm() const { return placement_ != NormPlacement::post; }
  [[nodiscard]] bool has_output_norm() const { return placement_ != NormPlacement::pre; }
  [[nodiscard]] Tensor keep_masks(const Pass& pass, const Tensor& y) const;
  [[nodiscard]] Tensor keep_beside_norms(const Pass& pass, const Tensor& x) const;

  Branches branches_;
  std::vector<Place> places_;
  std::size_t num_saved_ = 0;
  ModelNorm norm_;
  NormPlacement placement_;
  double residual_scale_;
  int block_;
  bool recomputes_all_;
  bool stops_early_;
  bool recomputes_norms_;
  GraphModules graphs_;
  double mask_bytes_;  // For each element of a branch's output,
  double norm_bytes_;  // and of a norm.
};

}  // namespace shardsim
