#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "sim/kernel/error.hpp"

#include "strategies/model/activation.hpp"
#include "strategies/model/make_model.hpp"
#include "strategies/model/pass.hpp"
#include "strategies/model/transformer.hpp"

// GPT-2: layer norm before each branch, one fused projection for q, k and v, GELU, biases
// everywhere, learned positions. Source: Radford et al., "Language Models are Unsupervised
// Multitask Learners" (2019).
namespace shardsim {

namespace {

class Gpt2 final : public TransformerFamily {
 public:
  explicit Gpt2(const ModelOptions& options)
      : TransformerFamily(options, {.has_learned_positions = true,
                                    .has_layer_norm = true,
                                    .has_out_bias = true,
                                    .fuses_qkv = true,
                                    .out_name = "attention.out"}) {}

  void add_block(ParameterTable& table, const std::string& name, int /*block*/) const override {
    const std::int64_t h = options_.hidden_size;
    // Branches that end in the residual stream start smaller, as their number grows with depth.
    const double joining = kInitScale / std::sqrt(2.0 * static_cast<double>(options_.num_layers));
    add_norm(table, name + ".norm1");
    const std::int64_t a = options_.num_attention_heads * head_size_;
    const std::int64_t kv = options_.num_query_groups * head_size_;
    add_column_linear(table, name + ".attention.qkv", {a + 2 * kv, h}, {a, kv, kv});
    add_row_linear(table, name + ".attention.out", {h, a}, joining);
    add_norm(table, name + ".norm2");
    add_column_linear(table, name + ".mlp.up", {options_.ffn_hidden_size, h}, {});
    add_row_linear(table, name + ".mlp.down", {h, options_.ffn_hidden_size}, joining);
  }

 private:
  // Parameters of a block, in order; backward reports them in reverse.
  enum Block : int {
    norm1_weight,
    norm1_bias,
    qkv_weight,
    qkv_bias,
    out_weight,
    out_bias,
    norm2_weight,
    norm2_bias,
    up_weight,
    up_bias,
    down_weight,
    down_bias,
  };

  // Names in errors.
  static constexpr const char* kQkv = "attention.qkv";
  static constexpr const char* kUp = "mlp.up";
  static constexpr const char* kDown = "mlp.down";

  // `whole` is [outputs, inputs].
  void add_column_linear(ParameterTable& table, const std::string& name, const Shape& whole,
                         const std::vector<std::int64_t>& sections) const {
    const int t = options_.tensor_parallel;
    table.add_split(name + ".weight", whole, {Init::Kind::bell, kInitScale}, 0, t, sections);
    table.add_split(name + ".bias", {whole[0]}, {Init::Kind::zeros, 0.0}, 0, t, sections);
  }
  void add_row_linear(ParameterTable& table, const std::string& name, const Shape& whole,
                      double scale) const {
    const int t = options_.tensor_parallel;
    table.add_split(name + ".weight", whole, {Init::Kind::bell, scale}, 1, t);
    table.add(name + ".bias", {whole[0]}, {Init::Kind::zeros, 0.0});
  }

  [[nodiscard]] BlockPlaces places(int /*block*/) const override {
    return {.out_weight = out_weight, .norm2_weight = norm2_weight};
  }

  void forward_qkv(const Pass& pass, Saved& saved) const override {
    saved[q] = apply_linear_with_bias(
        pass, qkv_weight, enter_region(pass, saved[norm1], kQkv));  // (b, s, (a + 2 g) d)
    drop_recomputed(saved, norm1);
  }

  [[nodiscard]] Tensor backward_qkv(const Pass& pass, Qkv gradients, Saved& saved) const override {
    recompute(pass, norm1_weight, input, norm1, saved);
    ColumnLinear reader{.k = qkv_weight, .has_bias = true, .dy = std::move(gradients[0])};
    return backward_columns(pass, {&reader, 1}, std::move(saved[norm1]), kQkv);  // (b, s, h)
  }

  // down(gelu(up(norm2)))
  [[nodiscard]] Tensor forward_mlp(const Pass& pass, Saved& saved) const override {
    saved[up] = apply_linear_with_bias(pass, up_weight,
                                       enter_region(pass, saved[norm2], kUp));  // (b, s, f)
    drop_recomputed(saved, norm2);
    saved[activated] = gelu_forward(pass.runtime, saved[up]);
    Tensor y = apply_row_linear(pass, down_weight, true, saved[activated], kDown);  // (b, s, h)
    if (recomputes_some()) saved[activated] = {};
    return y;
  }

  [[nodiscard]] Tensor backward_mlp(const Pass& pass, Tensor dy, Saved& saved) const override {
    if (recomputes_some()) saved[activated] = gelu_forward(pass.runtime, saved[up]);
    Tensor d = backward_row_linear(pass, down_weight, true, dy, std::move(saved[activated]),
                                   kDown);  // (b, s, f)
    dy = {};
    gelu_backward(pass.runtime, saved[up], d);
    saved[up] = {};
    recompute(pass, norm2_weight, middle, norm2, saved);
    ColumnLinear reader{.k = up_weight, .has_bias = true, .dy = std::move(d)};
    return backward_columns(pass, {&reader, 1}, std::move(saved[norm2]), kUp);  // (b, s, h)
  }
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
  return std::make_unique<Transformer>(options, std::make_unique<Gpt2>(options));
}

}  // namespace shardsim
