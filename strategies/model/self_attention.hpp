#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "strategies/model/branch.hpp"
#include "strategies/model/make_model.hpp"

// Attention of heads over positions, between the layers that make queries, keys and values and the
// layer that reads what they attended to: the same for all kinds of these layers.
namespace shardsim {

class SelfAttention : public RegionBranch {
 public:
  [[nodiscard]] const char* dropout_stream() const final { return "attention"; }
  [[nodiscard]] std::size_t num_inner() const override { return num_saved; }
  [[nodiscard]] OffloadModule stream_reader() const override { return OffloadModule::attn_norm; }
  [[nodiscard]] OffloadModule input_reader() const override { return OffloadModule::qkv_linear; }
  [[nodiscard]] OffloadModule reader_of(std::size_t kept) const final;
  [[nodiscard]] Tensor forward_inside(const Pass& pass, Tensor entered, BranchInput& x,
                                      std::span<Tensor> kept) const final;
  [[nodiscard]] Tensor row_input(const Pass& pass, std::span<Tensor> kept) const final;
  /// Queries, keys and values, and what attention keeps beside them.
  void remake(const Pass& pass, BranchInput& x, std::span<Tensor> kept) const final;
  [[nodiscard]] ColumnLinears backward_inside(const Pass& pass, Tensor d,
                                              std::span<Tensor> kept) const final;
  /// Scores, and probabilities times values: 2 a d and 2 a d_v flops for a pair that the mask
  /// leaves.
  [[nodiscard]] std::int64_t forward_flops_per_sample(int block) const final;

 protected:
  /// Tensors kept for backward.
  enum Kept : std::size_t {
    q,  ///< Rotated, where k are. From backward on gradients stand in their places.
    k,
    v,
    attended,
    log_sum_exp,
    exchanged_qkv,  ///< See Attended: q, k and v are then not kept.
    exchanged_y,
    scores,       ///< See FrameworkMemory.
    output_gate,  ///< Before its sigmoid. From backward on its gradient.
    raw_q,        ///< Before its norm; the norm's statistics follow.
    raw_k = raw_q + 2,
    num_saved = raw_k + 2,
  };
  using Qkv = std::array<Tensor, 3>;

  /// How the layers lie.
  struct Traits {
    bool fuses_qkv = false;  ///< q, k and v are side by side in the rows of one tensor, kept as q.
    bool has_output_gate = false;  ///< A sigmoid gates what the row-parallel layer reads,
    bool gates_heads = false;      ///< one for each head, else element by element.
  };
  SelfAttention(const ModelOptions& options, const Traits& traits)
      : options_(options),
        head_size_(options.head_size()),
        value_size_(options.value_size()),
        heads_(options.num_attention_heads / options.tensor_parallel),
        groups_(options.groups_of_rank()),
        traits_(traits) {}

  /// Makes q, k and v, and the gate.
  virtual void forward_qkv(const Pass& pass, Tensor entered, BranchInput& x,
                           std::span<Tensor> kept) const = 0;
  /// Once forward has attended it may drop q, k and v, and what they are made of.
  virtual void drop_heads(std::span<Tensor> /*kept*/) const {}
  /// Makes them again, if they were dropped.
  virtual void remake_heads(const Pass& /*pass*/, BranchInput& /*x*/,
                            std::span<Tensor> /*kept*/) const {}
  /// From the gradients of q, k and v to those of the column-parallel layers' outputs. Drops q and
  /// k if it reads them.
  [[nodiscard]] virtual ColumnLinears backward_qkv(const Pass& pass, Qkv gradients,
                                                   std::span<Tensor> kept) const = 0;
  /// Whether backward_qkv reads q and k.
  [[nodiscard]] virtual bool keeps_queries_and_keys() const { return false; }
  /// Whether it reads v.
  [[nodiscard]] virtual bool keeps_values() const { return false; }
  /// Number of the sinks, or -1.
  [[nodiscard]] virtual int sinks(const Pass& /*pass*/) const { return -1; }

  ModelOptions options_;
  std::int64_t head_size_;   // d
  std::int64_t value_size_;  // d_v
  std::int64_t heads_;       // a and g of this rank.
  std::int64_t groups_;

 private:
  void attend_to_tokens(const Pass& pass, std::span<Tensor> kept) const;
  // Once all that exchanged tokens for heads is there, q, k and v are not needed.
  void drop_exchanged(std::span<Tensor> kept) const;
  // `queries` [b, s, ...]: of this rank's heads and positions.
  [[nodiscard]] AttentionShape attention_shape(const Pass& pass, const Tensor& queries) const;
  // Gradients of q, k and v of the tokens that `d` has.
  [[nodiscard]] Qkv allocate_qkv(Runtime& runtime, const Tensor& d) const;
  [[nodiscard]] QkvHeads heads_of(std::span<const Tensor, 3> qkv) const;
  [[nodiscard]] Tensor by_head(const Tensor& y) const;
  // In place of d stands the gradient of y, in place of the gate its own.
  void backward_gate(const Pass& pass, Tensor& d, std::span<Tensor> kept) const;
  // Memory that a framework keeps for scores.
  [[nodiscard]] Tensor keep_scores(const Pass& pass, const AttentionShape& shape) const;

  Traits traits_;
};

}  // namespace shardsim
