#include <cmath>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/kernel/error.hpp"

#include "strategies/model/activation.hpp"
#include "strategies/model/make_model.hpp"
#include "strategies/model/self_attention.hpp"
#include "strategies/model/transformer.hpp"

// GPT-2: layer norm before each branch, one fused projection for q, k and v, GELU, biases
// everywhere, learned positions. Source: Radford et al., "Language Models are Unsupervised
// Multitask Learners" (2019).
namespace shardsim {

namespace {

// A branch's column-parallel and row-parallel layers, in the order of their parameters.
enum Gpt2Linears : int { column_weight, column_bias, row_weight, row_bias };

// `name`.`column` and `name`.`row`: [inner, h] and [h, f].
struct Gpt2Layers {
  std::string column;
  std::string row;
  std::int64_t inner;
  std::int64_t f;
  std::vector<std::int64_t> sections = {};  // They divide `inner`.
};

void add_layers(ParameterTable& table, const ModelOptions& options, const std::string& name,
                const Gpt2Layers& layers) {
  const std::int64_t h = options.hidden_size;
  const int t = options.tensor_parallel;
  const Init zeros{Init::Kind::zeros, 0.0};
  // Branches that end in the residual stream start smaller, as their number grows with depth.
  const double joining = kInitScale / std::sqrt(2.0 * static_cast<double>(options.num_layers));
  table.add_split(name + layers.column + ".weight", {layers.inner, h},
                  {Init::Kind::bell, kInitScale}, 0, t, layers.sections);
  table.add_split(name + layers.column + ".bias", {layers.inner}, zeros, 0, t, layers.sections);
  table.add_split(name + layers.row + ".weight", {h, layers.f}, {Init::Kind::bell, joining}, 1, t);
  table.add(name + layers.row + ".bias", {h}, zeros);
}

class FusedAttention final : public SelfAttention {
 public:
  explicit FusedAttention(const ModelOptions& options)
      : SelfAttention(options, {.fuses_qkv = true}) {}

  void add_parameters(ParameterTable& table, const std::string& name,
                      int /*block*/) const override {
    const std::int64_t a = options_.num_attention_heads * head_size_;
    const std::int64_t kv = options_.num_query_groups * head_size_;
    add_layers(table, options_, name,
               {".attention.qkv", ".attention.out", a + 2 * kv, a, {a, kv, kv}});
  }
  [[nodiscard]] const char* columns() const override { return "attention.qkv"; }
  [[nodiscard]] bool reads_by_linear() const override { return true; }
  [[nodiscard]] Row row(const Pass& /*pass*/) const override {
    return {row_weight, true, "attention.out"};
  }

 private:
  void forward_qkv(const Pass& pass, Tensor entered, BranchInput& x,
                   std::span<Tensor> kept) const override {
    kept[q] = apply_linear_with_bias(pass, column_weight, entered);  // (b, s, (a + 2 g) d)
    entered = {};
    x.drop_recomputed();
  }

  [[nodiscard]] ColumnLinears backward_qkv(const Pass& /*pass*/, Qkv gradients,
                                           std::span<Tensor> /*kept*/) const override {
    ColumnLinears readers;
    readers.add({.k = column_weight, .has_bias = true, .dy = std::move(gradients[0])});
    return readers;
  }
};

// down(gelu(up(x)))
class GeluMlp final : public RegionBranch {
 public:
  explicit GeluMlp(const ModelOptions& options)
      : options_(options),
        drops_activation_(options.recomputes(RecomputeModule::activation)),
        runs_again_(options.recomputes(RecomputeModule::mlp)) {}

  [[nodiscard]] GraphModule graph_module() const override { return GraphModule::mlp; }
  [[nodiscard]] const char* dropout_stream() const override { return "mlp"; }
  void add_parameters(ParameterTable& table, const std::string& name,
                      int /*block*/) const override {
    const std::int64_t f = options_.ffn_hidden_size;
    add_layers(table, options_, name, {".mlp.up", ".mlp.down", f, f});
  }
  [[nodiscard]] std::size_t num_inner() const override { return num_saved; }
  [[nodiscard]] const char* columns() const override { return "mlp.up"; }
  [[nodiscard]] bool reads_by_linear() const override { return true; }
  [[nodiscard]] Row row(const Pass& /*pass*/) const override {
    return {row_weight, true, "mlp.down"};
  }
  [[nodiscard]] Tensor forward_inside(const Pass& pass, Tensor entered, BranchInput& x,
                                      std::span<Tensor> kept) const override {
    kept[up] = apply_linear_with_bias(pass, column_weight, entered);  // (b, s, f)
    entered = {};
    x.drop_recomputed();
    kept[activated] = gelu_forward(pass.runtime, kept[up]);
    narrow_to_stay(pass.runtime, options_.activation.store, kept[up]);
    return kept[activated];
  }
  [[nodiscard]] bool runs_again() const override { return runs_again_; }
  void drop_row_input(std::span<Tensor> kept, bool is_quantized) const override {
    if (drops_activation_ || is_quantized) kept[activated] = {};
  }
  [[nodiscard]] bool recomputes_row_input() const override { return drops_activation_; }
  [[nodiscard]] Tensor row_input(const Pass& pass, std::span<Tensor> kept) const override {
    if (kept[activated].defined()) return std::move(kept[activated]);
    widen(pass, kept);
    return gelu_forward(pass.runtime, kept[up]);
  }
  [[nodiscard]] ColumnLinears backward_inside(const Pass& pass, Tensor d,
                                              std::span<Tensor> kept) const override {
    widen(pass, kept);
    gelu_backward(pass.runtime, kept[up], d);
    kept[up] = {};
    ColumnLinears readers;
    readers.add({.k = column_weight, .has_bias = true, .dy = std::move(d)});
    return readers;
  }

 private:
  enum Kept : std::size_t { up, activated, num_saved };
  void widen(const Pass& pass, std::span<Tensor> kept) const {
    widen_to_read(pass.runtime, options_.activation.store, options_.dtype, kept[up]);
  }

  ModelOptions options_;
  bool drops_activation_;
  bool runs_again_;
};

}  // namespace

std::unique_ptr<Model> make_gpt2(const ModelOptions& options) {
  require_transformer(options);
  if (options.seq_len > options.max_position_embeddings) {
    throw UsageError("E0626",
                     concat("seq_len (", options.seq_len, ") is longer than the position table (",
                            options.max_position_embeddings, ")"),
                     "raise max_position_embeddings or shorten seq_len");
  }
  if (options.mtp_num_layers != 0) {
    throw UsageError("E0626", "family gpt2 has no multi-token prediction",
                     "use family llama, or set mtp_num_layers to 0");
  }
  const TransformerBlock::Branches branches = {std::make_shared<FusedAttention>(options),
                                               std::make_shared<GeluMlp>(options)};
  TransformerParts parts{
      .norm = {options.hidden_size, options.norm_epsilon, {.is_layer = true, .has_bias = true}},
      .has_learned_positions = true};
  parts.blocks.assign(to_size(options.num_layers), branches);
  return std::make_unique<Transformer>(options, std::move(parts));
}

}  // namespace shardsim
