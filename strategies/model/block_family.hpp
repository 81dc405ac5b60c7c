#pragma once

#include <utility>

#include "strategies/model/attend.hpp"
#include "strategies/model/transformer.hpp"

namespace shardsim {

/// Code of families whose blocks have an attention branch and then an MLP branch. Each branch
/// follows a norm and joins the residual stream.
class BlockFamily : public TransformerFamily {
 public:
  explicit BlockFamily(const ModelOptions& options)
      : options_(options),
        head_size_(options.hidden_size / options.num_attention_heads),
        heads_(options.num_attention_heads / options.tensor_parallel),
        groups_(options.num_query_groups / options.tensor_parallel) {}

  [[nodiscard]] Tensor backward_block(const Pass& pass, const Tensor& dy,
                                      Saved& saved) const final {
    const Tensor d_middle = backward_mlp(pass, dy, saved);
    Tensor dx = backward_attention(pass, d_middle, saved);
    saved.clear();
    return dx;
  }

 protected:
  // Branches, in the names of dropout's random numbers.
  static constexpr const char* kAttention = "attention";
  static constexpr const char* kMlp = "mlp";

  /// From the gradient of the block's output to that of what both branches have between them.
  [[nodiscard]] virtual Tensor backward_mlp(const Pass& pass, const Tensor& dy,
                                            Saved& saved) const = 0;
  /// From there to the gradient of the block's input.
  [[nodiscard]] virtual Tensor backward_attention(const Pass& pass, const Tensor& dy,
                                                  Saved& saved) const = 0;

  /// `queries` [b, s, ...]: of this rank's heads and positions.
  [[nodiscard]] AttentionShape attention_shape(const Pass& pass, const Tensor& queries) const {
    return {.batch = queries.shape()[0],
            .seq_len = queries.shape()[1] * pass.part.parts,
            .num_heads = heads_,
            .num_groups = groups_,
            .head_size = head_size_};
  }

  /// Memory that a framework keeps for the scores of this rank's queries, and for the dropout masks
  /// of both branches (results like `y`).
  [[nodiscard]] Tensor keep_scores(const Pass& pass, const AttentionShape& shape) const {
    const double queries = static_cast<double>(shape.seq_len) / pass.part.parts;
    const double scores =
        queries *
        static_cast<double>(checked_product({shape.batch, shape.num_heads, shape.seq_len}));
    return pass.runtime.occupy(MemoryCategory::activations, scores * options_.memory.score_bytes);
  }
  [[nodiscard]] Tensor keep_masks(const Pass& pass, const Tensor& y) const {
    if (options_.hidden_dropout <= 0.0) return {};
    const double elements = 2.0 * static_cast<double>(y.numel());
    return pass.runtime.occupy(MemoryCategory::activations, elements * options_.memory.mask_bytes);
  }

  [[nodiscard]] bool recomputes_some() const { return options_.recompute == Recompute::selective; }
  /// A norm's output and statistics, once they have been used.
  void drop_recomputed(Tensor& y, Tensor& statistics) const {
    if (!recomputes_some()) return;
    y = {};
    statistics = {};
  }

  /// The norm whose first parameter is the block's k-th.
  void normalise(Pass pass, int k, const Tensor& x, Tensor& y, Tensor& statistics) const {
    pass.first += k;
    NormOutput norm = forward_norm(pass, x);
    y = std::move(norm.y);
    statistics = std::move(norm.statistics);
  }

  ModelOptions options_;
  std::int64_t head_size_;  // d
  std::int64_t heads_;      // a and g of this rank.
  std::int64_t groups_;
};

}  // namespace shardsim
