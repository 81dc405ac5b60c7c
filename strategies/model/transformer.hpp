#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "strategies/model/embedding.hpp"
#include "strategies/model/make_model.hpp"
#include "strategies/model/norm.hpp"
#include "strategies/model/parameter_table.hpp"
#include "strategies/model/pass.hpp"

// A decoder-only transformer: token embedding, blocks, final norm, output weight, cross entropy.
// TransformerFamily holds the differences between families (norm, block, learned positions).
namespace shardsim {

class TransformerFamily {
 public:
  virtual ~TransformerFamily() = default;

  [[nodiscard]] virtual bool has_learned_positions() const = 0;
  /// Adds the parameters of a norm and of a block; names start with `name`.
  virtual void add_norm(ParameterTable& table, const std::string& name) const = 0;
  /// The block is a unit of its own, which was begun; more may follow it.
  virtual void add_block(ParameterTable& table, const std::string& name, int block) const = 0;

  /// `pass.first` is the norm's, or block's, first parameter. x [b, s, h], or with sequence
  /// parallelism this rank's tokens [b s / t, h]; with context parallelism s is this rank's share.
  [[nodiscard]] virtual NormOutput forward_norm(const Pass& pass, const Tensor& x) const = 0;
  [[nodiscard]] virtual Tensor backward_norm(const Pass& pass, const Tensor& dy, const Tensor& x,
                                             const Tensor& statistics) const = 0;
  [[nodiscard]] virtual Tensor forward_block(const Pass& pass, const Tensor& x,
                                             Saved& saved) const = 0;
  [[nodiscard]] virtual Tensor backward_block(const Pass& pass, const Tensor& dy,
                                              Saved& saved) const = 0;
};

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

/// Modules: embedding, one per block, head. Units likewise; with tied embeddings, all that is
/// outside the blocks is one root unit, which the first and the last module read.
class Transformer final : public Model {
 public:
  Transformer(const ModelOptions& options, std::unique_ptr<TransformerFamily> family);

  [[nodiscard]] std::span<const ParameterSpec> parameters() const override;
  [[nodiscard]] std::span<const ParameterUnit> units() const override;
  [[nodiscard]] int num_modules() const override;
  [[nodiscard]] ModuleRange layer_modules() const override { return {1, num_modules() - 2}; }
  [[nodiscard]] std::span<const int> units_of(int module) const override;
  [[nodiscard]] std::span<const int> parameters_of(int module) const override;
  [[nodiscard]] Shape activation_shape(std::int64_t samples) const override;
  [[nodiscard]] DType dtype() const override { return options_.dtype; }
  Tensor forward(int module, const ModelContext& context, const Tensor& input, const Batch& batch,
                 Saved& saved) const override;
  Tensor backward(int module, const ModelContext& context, const Tensor& output_gradient,
                  const Batch& batch, Saved& saved) const override;
  [[nodiscard]] Batch make_batch(Runtime& runtime, std::uint64_t seed, std::int64_t first,
                                 std::int64_t count, double ignore_fraction,
                                 const SequencePart& part) const override;
  [[nodiscard]] std::int64_t count_targets(std::uint64_t seed, std::int64_t first,
                                           std::int64_t count, double ignore_fraction,
                                           const SequencePart& part) const override;
  [[nodiscard]] std::int64_t positions_per_sample() const override { return options_.seq_len; }
  [[nodiscard]] std::int64_t model_flops_per_sample() const override;
  [[nodiscard]] std::int64_t model_flops_per_expert_token() const override;

 private:
  void add_outer_parameters();
  void add_blocks();
  void add_head();
  void list_module_parameters();
  [[nodiscard]] Pass pass_of(int module, const ModelContext& context, const Batch& batch) const;
  [[nodiscard]] VocabPart vocab_part_of(const ModelContext& context) const;
  [[nodiscard]] TokenRows rows_of(const ModelContext& context, const Batch& batch,
                                  const Tensor& x) const;
  /// Positions of each sample that a rank has.
  [[nodiscard]] std::int64_t own_positions() const {
    return options_.seq_len / options_.context_parallel;
  }
  [[nodiscard]] Tensor forward_embedding(const ModelContext& context, const Batch& batch) const;
  void backward_embedding(const ModelContext& context, const Tensor& output_gradient,
                          const Batch& batch) const;
  [[nodiscard]] Tensor forward_head(const ModelContext& context, const Tensor& x,
                                    const Batch& batch, Saved& saved) const;
  [[nodiscard]] Tensor backward_head(const ModelContext& context, const Batch& batch,
                                     Saved& saved) const;

  ModelOptions options_;
  std::unique_ptr<TransformerFamily> family_;
  ParameterTable table_;
  std::vector<std::vector<int>> module_units_;
  std::vector<std::vector<int>> module_parameters_;
  std::vector<int> block_first_;  // First parameter of each block; ends with what is after them.
  int tokens_ = 0;                // Parameter indices.
  int positions_ = -1;            // -1: none.
  int final_norm_ = 0;
  int head_ = 0;  // tokens_ if tied.
};

}  // namespace shardsim
