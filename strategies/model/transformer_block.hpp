#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "strategies/model/branch.hpp"
#include "strategies/model/make_model.hpp"

// A block of a transformer: branches one behind the other, each of which reads a norm of the
// residual stream x and joins it, x + dropout(branch(norm(x))). Most blocks have a mixer and then a
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

  /// Adds the block's parameters to `table`: of each branch those of its norm, then its own. They
  /// are a unit, which was begun; more may follow it.
  TransformerBlock(const ModelOptions& options, const ModelNorm& norm, Branches branches,
                   ParameterTable& table, const Id& id);

  /// With full recomputation x alone is kept.
  [[nodiscard]] Tensor forward(const Pass& pass, const Tensor& x, Saved& saved) const;
  [[nodiscard]] Tensor backward(const Pass& pass, const Tensor& dy, Saved& saved) const;
  /// Tensors kept for backward.
  [[nodiscard]] std::size_t num_kept() const {
    return recompute_ == Recompute::full ? 1 : num_saved_;
  }
  /// Flops of forward for one whole sample, beside those of the products with matrices.
  [[nodiscard]] std::int64_t forward_flops_per_sample() const;
  /// Whether forward leaves more to backward than tensors.
  [[nodiscard]] bool keeps_state() const;

 private:
  // Tensors kept for a branch; its own are behind them.
  enum BranchSaved : std::size_t { input, norm_output, norm_statistics, masks, num_saved };
  struct Place {
    int norm = 0;  // Numbers of parameters in the block.
    int branch = 0;
    std::size_t saved = 0;  // The first tensor.
  };

  [[nodiscard]] Tensor run_forward(const Pass& pass, const Tensor& x, Saved& saved) const;
  [[nodiscard]] BranchInput input_of(const Pass& pass, const Place& at, Saved& saved) const;
  [[nodiscard]] Tensor keep_masks(const Pass& pass, const Tensor& y) const;

  Branches branches_;
  std::vector<Place> places_;
  std::size_t num_saved_ = 0;
  ModelNorm norm_;
  int block_;
  Recompute recompute_;
  double mask_bytes_;  // For each element of a branch's output.
};

}  // namespace shardsim
