#pragma once

#include <cstdint>
#include <memory>
#include <string>
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
