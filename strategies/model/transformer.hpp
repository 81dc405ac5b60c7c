#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "strategies/model/make_model.hpp"
#include "strategies/model/model_norm.hpp"
#include "strategies/model/parameter_table.hpp"
#include "strategies/model/pass.hpp"
#include "strategies/model/prediction_depth.hpp"
#include "strategies/model/token_head.hpp"
#include "strategies/model/transformer_block.hpp"

// A decoder-only transformer: token embedding, blocks, final norm, output weight, cross entropy.
namespace shardsim {

/// Parts that a family of transformers brings.
struct TransformerParts {
  ModelNorm norm;
  bool has_learned_positions = false;
  std::vector<TransformerBlock::Branches> blocks = {};  ///< One of each block, see num_blocks().
};

/// Modules: embedding, one per block, head. Units likewise; with tied embeddings, all that is
/// outside the blocks is one root unit, which the first and the last module read. The head has the
/// depths of multi-token prediction, units of their own, and then reads the embedding, too.
class Transformer final : public Model {
 public:
  Transformer(const ModelOptions& options, const TransformerParts& parts);

  [[nodiscard]] std::span<const ParameterSpec> parameters() const override {
    return table_.specs();
  }
  [[nodiscard]] std::span<const ParameterUnit> units() const override { return table_.units(); }
  [[nodiscard]] int num_modules() const override { return static_cast<int>(module_units_.size()); }
  [[nodiscard]] ModuleRange layer_modules() const override { return {1, num_modules() - 2}; }
  [[nodiscard]] std::span<const int> units_of(int module) const override {
    return module_units_[to_size(module)];
  }
  [[nodiscard]] std::span<const int> parameters_of(int module) const override {
    return module_parameters_[to_size(module)];
  }
  [[nodiscard]] int kind_of(int module) const override;
  [[nodiscard]] bool keeps_state(int module) const override;
  [[nodiscard]] std::vector<OffloadModule> readers_of_kept(int module) const override;
  [[nodiscard]] std::vector<RouterBiasSpec> router_biases() const override;
  [[nodiscard]] Shape activation_shape(std::int64_t samples) const override;
  [[nodiscard]] DType dtype() const override { return options_.dtype; }
  [[nodiscard]] bool casts_activations() const override {
    return options_.activation.store != ActivationStore::same ||
           options_.moe.dispatch_recipe != ScalingRecipe::none;
  }
  [[nodiscard]] int num_losses() const override { return 1 + static_cast<int>(depths_.size()); }
  [[nodiscard]] double loss_weight(int loss) const override {
    return loss == 0 ? 1.0 : options_.mtp_loss_scaling_factor / static_cast<double>(depths_.size());
  }
  Tensor forward(int module, const ModelContext& context, const Tensor& input, const Batch& batch,
                 Saved& saved) const override;
  Tensor backward(int module, const ModelContext& context, const Tensor& output_gradient,
                  const Batch& batch, Saved& saved) const override;
  [[nodiscard]] Batch make_batch(Runtime& runtime, std::uint64_t seed, std::int64_t first,
                                 std::int64_t count, double ignore_fraction,
                                 const SequencePart& part) const override;
  [[nodiscard]] std::int64_t count_targets(std::uint64_t seed, std::int64_t first,
                                           std::int64_t count, double ignore_fraction,
                                           const SequencePart& part, int loss) const override;
  [[nodiscard]] std::int64_t positions_per_sample() const override { return options_.seq_len; }
  [[nodiscard]] std::int64_t model_flops_per_sample() const override;
  [[nodiscard]] std::int64_t model_flops_per_expert_token() const override;

 private:
  // Tensors that the head keeps for backward. Those of each depth follow: its normed output, those
  // of its token head, and its own.
  enum HeadSaved : std::size_t {
    head_x,
    head_norm,
    head_statistics,
    head_logits,
    head_lse,
    head_kept,  // See FrameworkMemory.
    head_saved
  };
  enum DepthSaved : std::size_t { depth_output, depth_logits, depth_lse, depth_kept, depth_saved };
  [[nodiscard]] std::size_t place_of_depth(std::size_t depth) const {
    return head_saved + depth * (depth_saved + depths_.front().num_saved());
  }

  void add_outer_parameters(bool has_learned_positions);
  using AllBranches = std::vector<TransformerBlock::Branches>;
  void add_blocks(const AllBranches& branches);
  void add_head();
  void add_depths(const AllBranches& branches);
  void list_module_parameters();
  [[nodiscard]] std::vector<int> parameters_of_layers() const;
  [[nodiscard]] Pass pass_of(int module, const ModelContext& context, const Batch& batch) const;
  // The precision of a block's linear layers; null: that of all else.
  [[nodiscard]] const LowPrecision* low_of(int block) const;
  [[nodiscard]] VocabPart vocab_part_of(const ModelContext& context) const;
  [[nodiscard]] TokenRows rows_of(const ModelContext& context, const Batch& batch,
                                  const Tensor& x) const;
  [[nodiscard]] std::int64_t own_positions() const {
    return options_.seq_len / options_.context_parallel;
  }
  // `pass`: of all parameters, counted from the model's first.
  [[nodiscard]] Tensor embed(const Pass& pass, const Batch& batch, const Tensor& tokens) const;
  void backward_embedding(const Pass& pass, const Tensor& output_gradient, const Batch& batch,
                          const Tensor& tokens, bool is_last) const;
  [[nodiscard]] Tensor forward_head(const ModelContext& context, const Tensor& x,
                                    const Batch& batch, Saved& saved) const;
  [[nodiscard]] Tensor backward_head(const ModelContext& context, const Batch& batch,
                                     Saved& saved) const;
  // Adds the losses of all depths to that of the next token.
  [[nodiscard]] Tensor forward_depths(const Pass& pass, const Batch& batch, const Tensor& loss,
                                      Saved& saved) const;
  // Returns the gradient of the head's normed input.
  [[nodiscard]] Tensor backward_depths(const Pass& pass, const Batch& batch, Saved& saved) const;

  ModelOptions options_;
  ModelNorm norm_;
  std::vector<TransformerBlock> blocks_;
  std::vector<PredictionDepth> depths_;
  TokenHead token_head_;
  ParameterTable table_;
  std::vector<std::vector<int>> module_units_;
  std::vector<std::vector<int>> module_parameters_;
  std::vector<int> block_first_;  // First parameter of each block; ends with what is after them.
  int tokens_ = 0;                // Parameter indices.
  int positions_ = -1;            // -1: none.
  int final_norm_ = 0;
  int head_ = 0;      // tokens_ if tied.
  int head_end_ = 0;  // Behind the parameters of final norm and head.
};

}  // namespace shardsim
