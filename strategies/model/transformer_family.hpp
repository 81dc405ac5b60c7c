#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "strategies/model/embedding.hpp"
#include "strategies/model/make_model.hpp"
#include "strategies/model/parameter_table.hpp"
#include "strategies/model/pass.hpp"

// The blocks of a decoder-only transformer, and how families of them differ.
namespace shardsim {

/// Traits of a family besides how its blocks lay out their linear layers.
struct FamilyTraits {
  bool has_learned_positions = false;
  bool has_layer_norm = false;  ///< Norms have a bias: layer norm, else RMS norm.
  bool has_out_bias = false;    ///< Attention's last layer has a bias.
  bool fuses_qkv = false;  ///< q, k and v are side by side in the rows of one tensor, kept as q.
  bool has_output_gate = false;  ///< A sigmoid gates what attention's last layer reads.
  const char* out_name = "";     ///< Attention's last layer, in errors.
};

/// Parameters of a block that blocks of all families have, by their numbers.
struct BlockPlaces {
  int out_weight = 0;  ///< Attention's last layer.
  int norm2_weight = 0;
  int sinks = -1;  ///< -1: none.
};

/// A family's blocks have an attention branch and then an MLP branch. Each branch follows a norm
/// and joins the residual stream. `pass.first` is the norm's, or block's, first parameter. x [b, s,
/// h], or with sequence parallelism this rank's tokens [b s / t, h]; with context parallelism s is
/// this rank's share.
class TransformerFamily {
 public:
  TransformerFamily(const ModelOptions& options, const FamilyTraits& traits)
      : options_(options),
        traits_(traits),
        head_size_(options.head_size()),
        heads_(options.num_attention_heads / options.tensor_parallel),
        groups_(options.num_query_groups / options.tensor_parallel) {}
  virtual ~TransformerFamily() = default;

  [[nodiscard]] const FamilyTraits& traits() const { return traits_; }
  /// Adds the parameters of a norm and of a block; names start with `name`.
  void add_norm(ParameterTable& table, const std::string& name) const;
  /// The block is a unit of its own, which was begun; more may follow it.
  virtual void add_block(ParameterTable& table, const std::string& name, int block) const = 0;

  [[nodiscard]] NormOutput forward_norm(const Pass& pass, const Tensor& x) const {
    return apply_norm(pass, 0, traits_.has_layer_norm, x, options_.norm_epsilon);
  }
  [[nodiscard]] Tensor backward_norm(const Pass& pass, int first, const Tensor& dy, const Tensor& x,
                                     const Tensor& statistics) const {
    return finish_norm(pass, first, traits_.has_layer_norm, dy, x, statistics);
  }
  [[nodiscard]] Tensor forward_block(const Pass& pass, const Tensor& x, Saved& saved) const;
  [[nodiscard]] Tensor backward_block(const Pass& pass, const Tensor& dy, Saved& saved) const;

 protected:
  /// Tensors that a block keeps for backward.
  enum BlockSaved : std::size_t {
    input,
    norm1,
    norm1_statistics,
    q,  ///< Rotated, where k are.
    k,
    v,
    attended,
    log_sum_exp,
    exchanged_qkv,  ///< See Attended: q, k and v are then not kept.
    exchanged_y,
    middle,  ///< Input of the second branch.
    norm2,
    norm2_statistics,
    gate,
    up,
    activated,
    scores,  ///< See FrameworkMemory, as of masks.
    masks,
    output_gate,  ///< Before its sigmoid. From backward on its gradient.
    raw_q,        ///< Before its norm; the norm's statistics follow.
    raw_k = raw_q + 2,
    num_saved = raw_k + 2,
  };
  using Qkv = std::array<Tensor, 3>;

  [[nodiscard]] virtual BlockPlaces places(int block) const = 0;
  /// Whether backward_qkv reads q and k.
  [[nodiscard]] virtual bool keeps_queries_and_keys() const { return false; }
  /// Makes q, k and v of norm1, which is dropped if it is recomputed.
  virtual void forward_qkv(const Pass& pass, Saved& saved) const = 0;
  /// Adds and reports the gradients of their weights, drops norm1, and q and k if it reads
  /// them, and returns norm1's gradient.
  [[nodiscard]] virtual Tensor backward_qkv(const Pass& pass, Qkv gradients,
                                            Saved& saved) const = 0;
  /// The MLP branch from norm2, which is dropped if it is recomputed, until before its dropout.
  [[nodiscard]] virtual Tensor forward_mlp(const Pass& pass, Saved& saved) const = 0;
  /// Adds and reports the gradients of its weights, drops norm2, and returns its gradient.
  [[nodiscard]] virtual Tensor backward_mlp(const Pass& pass, Tensor dy, Saved& saved) const = 0;

  [[nodiscard]] bool recomputes_some() const { return options_.recompute == Recompute::selective; }
  /// A norm's output and statistics, once they have been used. `y`: norm1 or norm2.
  void drop_recomputed(Saved& saved, BlockSaved y) const {
    if (!recomputes_some()) return;
    saved[y] = {};
    saved[y + 1] = {};
  }
  /// Makes them again. `x`: input or middle.
  void recompute(const Pass& pass, int first, BlockSaved x, BlockSaved y, Saved& saved) const {
    if (recomputes_some() && !saved[y].defined()) normalise(pass, first, saved[x], y, saved);
  }

  ModelOptions options_;
  FamilyTraits traits_;
  std::int64_t head_size_;  // d
  std::int64_t heads_;      // a and g of this rank.
  std::int64_t groups_;

 private:
  [[nodiscard]] Tensor backward_attention(const Pass& pass, const Tensor& dy, Saved& saved) const;
  // The norm whose first parameter is the block's number `first`; its statistics follow `y`.
  void normalise(Pass pass, int first, const Tensor& x, BlockSaved y, Saved& saved) const;
  void attend_to_tokens(const Pass& pass, Saved& saved) const;
  // The input of attention's last layer: y, or y times its gate.
  [[nodiscard]] Tensor gated(const Pass& pass, const Saved& saved) const;
  // `queries` [b, s, ...]: of this rank's heads and positions.
  [[nodiscard]] AttentionShape attention_shape(const Pass& pass, const Tensor& queries) const;
  // Gradients of q, k and v of the tokens that `d` has.
  [[nodiscard]] Qkv allocate_qkv(Runtime& runtime, const Tensor& d) const;
  [[nodiscard]] QkvHeads heads_of(std::span<const Tensor, 3> qkv) const;
  // Memory that a framework keeps for scores, and for dropout masks of both branches.
  [[nodiscard]] Tensor keep_scores(const Pass& pass, const AttentionShape& shape) const;
  [[nodiscard]] Tensor keep_masks(const Pass& pass, const Tensor& y) const;
};

}  // namespace shardsim
