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
#include "strategies/model/transformer_block.hpp"

// A decoder-only transformer: token embedding, blocks, final norm, output weight, cross entropy.
namespace shardsim {

/// Parts that a family of transformers brings.
struct TransformerParts {
  ModelNorm norm;
  bool has_learned_positions = false;
  std::vector<TransformerBlock::Branches> blocks = {};  ///< One of each block.
};

/// Modules: embedding, one per block, head. Units likewise; with tied embeddings, all that is
/// outside the blocks is one root unit, which the first and the last module read.
class Transformer final : public Model {
 public:
  Transformer(const ModelOptions& options, TransformerParts parts);

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
  [[nodiscard]] std::vector<RouterBiasSpec> router_biases() const override;
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
  void add_outer_parameters(bool has_learned_positions);
  void add_blocks(std::vector<TransformerBlock::Branches> branches);
  void add_head();
  void list_module_parameters();
  [[nodiscard]] Pass pass_of(int module, const ModelContext& context, const Batch& batch) const;
  [[nodiscard]] VocabPart vocab_part_of(const ModelContext& context) const;
  [[nodiscard]] TokenRows rows_of(const ModelContext& context, const Batch& batch,
                                  const Tensor& x) const;
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
  ModelNorm norm_;
  std::vector<TransformerBlock> blocks_;
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
