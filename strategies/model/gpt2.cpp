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

class Gpt2 final : public BlockFamily {
 public:
  using BlockFamily::BlockFamily;

  [[nodiscard]] bool has_learned_positions() const override { return true; }

  void add_norm(ParameterTable& table, const std::string& name) const override {
    table.add(name + ".weight", {options_.hidden_size}, {Init::Kind::ones, 0.0});
    table.add(name + ".bias", {options_.hidden_size}, {Init::Kind::zeros, 0.0});
  }

  void add_block(ParameterTable& table, const std::string& name, int /*block*/) const override {
    const std::int64_t h = options_.hidden_size;
    // Branches that end in the residual stream start smaller, as their number grows with depth.
    const double joining = kInitScale / std::sqrt(2.0 * static_cast<double>(options_.num_layers));
    add_norm(table, name + ".norm1");
    const std::int64_t kv = options_.num_query_groups * head_size_;
    add_column_linear(table, name + ".attention.qkv", {h + 2 * kv, h}, {h, kv, kv});
    add_row_linear(table, name + ".attention.out", {h, h}, joining);
    add_norm(table, name + ".norm2");
    add_column_linear(table, name + ".mlp.up", {options_.ffn_hidden_size, h}, {});
    add_row_linear(table, name + ".mlp.down", {h, options_.ffn_hidden_size}, joining);
  }

  [[nodiscard]] NormOutput forward_norm(const Pass& pass, const Tensor& x) const override {
    return apply_norm(pass, 0, true, x, options_.norm_epsilon);
  }

  [[nodiscard]] Tensor backward_norm(const Pass& pass, const Tensor& dy, const Tensor& x,
                                     const Tensor& statistics) const override {
    return finish_norm(pass, 0, true, dy, x, statistics);
  }

  [[nodiscard]] Tensor forward_block(const Pass& pass, const Tensor& x,
                                     Saved& saved) const override {
    Runtime& runtime = pass.runtime;
    saved.resize(num_saved);
    saved[input] = x;  // (b, s, h)
    normalise(pass, norm1_weight, x, saved[norm1], saved[norm1_statistics]);
    saved[qkv] = apply_linear_with_bias(
        pass, qkv_weight, enter_region(pass, saved[norm1], kQkv));  // (b, s, (a + 2 g) d)
    drop_recomputed(saved[norm1], saved[norm1_statistics]);
    Attended attention = attend(pass, attention_shape(pass, saved[qkv]), q_of(saved[qkv]),
                                k_of(saved[qkv]), v_of(saved[qkv]));
    saved[attended] = std::move(attention.own.y);  // (b, s, a d)
    saved[log_sum_exp] = std::move(attention.own.log_sum_exp);
    saved[exchanged_qkv] = std::move(attention.exchanged_qkv);
    saved[exchanged_y] = std::move(attention.exchanged_y);
    saved[scores] = keep_scores(pass, attention_shape(pass, saved[qkv]));
    if (saved[exchanged_qkv].defined()) saved[qkv] = {};
    saved[middle] = apply_row_linear(pass, out_weight, true, saved[attended], kOut);
    apply_dropout(pass, kAttention, saved[middle]);
    saved[masks] = keep_masks(pass, saved[middle]);
    add_in_place(runtime, x, saved[middle]);
    normalise(pass, norm2_weight, saved[middle], saved[norm2], saved[norm2_statistics]);
    saved[up] = apply_linear_with_bias(pass, up_weight,
                                       enter_region(pass, saved[norm2], kUp));  // (b, s, f)
    drop_recomputed(saved[norm2], saved[norm2_statistics]);
    saved[activated] = gelu_forward(runtime, saved[up]);
    Tensor y = apply_row_linear(pass, down_weight, true, saved[activated], kDown);  // (b, s, h)
    if (recomputes_some()) saved[activated] = {};
    apply_dropout(pass, kMlp, y);
    add_in_place(runtime, saved[middle], y);
    return y;
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

  // Tensors that a block keeps for backward, in the order in which forward makes them.
  enum BlockSaved : std::size_t {
    input,
    norm1,
    norm1_statistics,
    qkv,
    attended,
    log_sum_exp,
    exchanged_qkv,  // See Attended: qkv is then not kept.
    exchanged_y,
    middle,  // Input of the second branch.
    norm2,
    norm2_statistics,
    up,
    activated,
    scores,  // See FrameworkMemory, as of masks.
    masks,
    num_saved,
  };

  // Names in errors.
  static constexpr const char* kQkv = "attention.qkv";
  static constexpr const char* kOut = "attention.out";
  static constexpr const char* kUp = "mlp.up";
  static constexpr const char* kDown = "mlp.down";

  [[nodiscard]] std::int64_t qkv_size() const { return (heads_ + 2 * groups_) * head_size_; }

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

  // q, then k, then v, side by side in each row of the fused projection.
  [[nodiscard]] Heads q_of(const Tensor& fused) const { return {fused, qkv_size(), 0}; }
  [[nodiscard]] Heads k_of(const Tensor& fused) const {
    return {fused, qkv_size(), heads_ * head_size_};
  }
  [[nodiscard]] Heads v_of(const Tensor& fused) const {
    return {fused, qkv_size(), (heads_ + groups_) * head_size_};
  }

  // y = middle + down(gelu(up(norm2(middle)))); returns the gradient of middle.
  [[nodiscard]] Tensor backward_mlp(const Pass& pass, const Tensor& dy,
                                    Saved& saved) const override {
    Runtime& runtime = pass.runtime;
    Tensor d_branch = backward_dropout(pass, kMlp, dy);
    if (recomputes_some()) saved[activated] = gelu_forward(runtime, saved[up]);
    Tensor d = backward_row_linear(pass, down_weight, true, d_branch, std::move(saved[activated]),
                                   kDown);  // (b, s, f)
    d_branch = {};
    gelu_backward(runtime, saved[up], d);
    saved[up] = {};
    if (recomputes_some()) {
      normalise(pass, norm2_weight, saved[middle], saved[norm2], saved[norm2_statistics]);
    }
    ColumnLinear reader{.k = up_weight, .has_bias = true, .dy = std::move(d)};
    d = backward_columns(pass, {&reader, 1}, std::move(saved[norm2]), kUp);  // (b, s, h)
    d = finish_norm(pass, norm2_weight, true, d, saved[middle], saved[norm2_statistics]);
    saved[middle] = {};
    saved[norm2_statistics] = {};
    add_in_place(runtime, dy, d);
    return d;
  }

  // middle = x + out(attention(qkv(norm1(x)))); returns the gradient of x.
  [[nodiscard]] Tensor backward_attention(const Pass& pass, const Tensor& dy,
                                          Saved& saved) const override {
    Runtime& runtime = pass.runtime;
    Tensor d_branch = backward_dropout(pass, kAttention, dy);
    saved[masks] = {};
    Tensor d = backward_row_linear(pass, out_weight, true, d_branch, saved[attended],
                                   kOut);  // (b, s, a d)
    d_branch = {};
    Tensor d_qkv = new_activation(runtime, with_last(d.shape(), qkv_size()), d.dtype());
    backward_attend(
        pass, attention_shape(pass, d_qkv), q_of(saved[qkv]), k_of(saved[qkv]), v_of(saved[qkv]),
        {{saved[attended], saved[log_sum_exp]}, saved[exchanged_qkv], saved[exchanged_y]}, d,
        q_of(d_qkv), k_of(d_qkv), v_of(d_qkv));
    d = {};
    for (const BlockSaved used : {qkv, attended, log_sum_exp, exchanged_qkv, exchanged_y, scores}) {
      saved[used] = {};
    }
    if (recomputes_some()) {
      normalise(pass, norm1_weight, saved[input], saved[norm1], saved[norm1_statistics]);
    }
    ColumnLinear reader{.k = qkv_weight, .has_bias = true, .dy = std::move(d_qkv)};
    d = backward_columns(pass, {&reader, 1}, std::move(saved[norm1]), kQkv);  // (b, s, h)
    d = finish_norm(pass, norm1_weight, true, d, saved[input], saved[norm1_statistics]);
    add_in_place(runtime, dy, d);
    return d;
  }
};

}  // namespace

std::unique_ptr<Model> make_gpt2(const ModelOptions& options) {
  require_transformer(options);
  if (options.seq_len > options.max_position_embeddings) {
    throw UsageError("E0626",
                     "seq_len (" + std::to_string(options.seq_len) +
                         ") is longer than the position table (" +
                         std::to_string(options.max_position_embeddings) + ")",
                     "raise max_position_embeddings or shorten seq_len");
  }
  return std::make_unique<Transformer>(options, std::make_unique<Gpt2>(options));
}

}  // namespace shardsim
