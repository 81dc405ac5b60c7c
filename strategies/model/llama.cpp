#include <string>
#include <utility>

#include "sim/kernel/error.hpp"

#include "strategies/model/activation.hpp"
#include "strategies/model/attention.hpp"
#include "strategies/model/families.hpp"
#include "strategies/model/rotary.hpp"
#include "strategies/model/transformer.hpp"

// Llama: RMS norm before each branch, rotary positions, grouped query heads, SwiGLU, no biases.
// Source: Touvron et al., "LLaMA: Open and Efficient Foundation Language Models" (2023).
namespace shardsim {

namespace {

// Parameters of a block, in order; backward reports them in reverse.
enum Block : int { norm1_weight, wq, wk, wv, wo, norm2_weight, w_gate, w_up, w_down };

// What a block keeps for backward, in the order in which forward makes it.
enum BlockSaved : std::size_t {
  input,
  norm1,
  norm1_statistics,
  q,  // Rotated, as are k.
  k,
  v,
  attended,
  log_sum_exp,
  middle,  // Input of the second branch.
  norm2,
  norm2_statistics,
  gate,
  up,
  activated,
  num_saved,
};

constexpr double kInitScale = 0.02;

class Llama final : public TransformerFamily {
 public:
  explicit Llama(const ModelOptions& options)
      : options_(options), head_size_(options.hidden_size / options.num_attention_heads) {}

  [[nodiscard]] bool has_learned_positions() const override { return false; }

  void add_norm(ParameterTable& table, const std::string& name) const override {
    table.add(name, {options_.hidden_size}, {Init::Kind::ones, 0.0});
  }

  void add_block(ParameterTable& table, const std::string& name) const override {
    const std::int64_t h = options_.hidden_size;
    const std::int64_t f = options_.ffn_hidden_size;
    const std::int64_t kv = options_.num_query_groups * head_size_;
    const Init init{Init::Kind::bell, kInitScale};
    add_norm(table, name + ".norm1");
    table.add(name + ".attention.wq", {h, h}, init);
    table.add(name + ".attention.wk", {kv, h}, init);
    table.add(name + ".attention.wv", {kv, h}, init);
    table.add(name + ".attention.wo", {h, h}, init);
    add_norm(table, name + ".norm2");
    table.add(name + ".mlp.gate", {f, h}, init);
    table.add(name + ".mlp.up", {f, h}, init);
    table.add(name + ".mlp.down", {h, f}, init);
  }

  [[nodiscard]] NormOutput forward_norm(const Pass& pass, const Tensor& x) const override {
    return rms_norm_forward(pass.runtime, x, pass.weight(0), options_.norm_epsilon);
  }

  [[nodiscard]] Tensor backward_norm(const Pass& pass, const Tensor& dy, const Tensor& x,
                                     const Tensor& statistics) const override {
    return finish_rms_norm(pass, 0, dy, x, statistics);
  }

  [[nodiscard]] Tensor forward_block(const Pass& pass, const Tensor& x,
                                     Saved& saved) const override {
    Runtime& runtime = pass.runtime;
    saved.resize(num_saved);
    saved[input] = x;  // (b, s, h)
    normalise(pass, norm1_weight, x, saved[norm1], saved[norm1_statistics]);
    saved[q] = apply_linear(pass, wq, saved[norm1]);  // (b, s, a d)
    saved[k] = apply_linear(pass, wk, saved[norm1]);  // (b, s, g d)
    saved[v] = apply_linear(pass, wv, saved[norm1]);  // (b, s, g d)
    rotary_forward(runtime, saved[q], head_size_, options_.rope_theta);
    rotary_forward(runtime, saved[k], head_size_, options_.rope_theta);
    AttentionOutput attention = attention_forward(runtime, attention_shape(x), heads(saved[q]),
                                                  heads(saved[k]), heads(saved[v]));
    saved[attended] = std::move(attention.y);  // (b, s, h)
    saved[log_sum_exp] = std::move(attention.log_sum_exp);
    saved[middle] = apply_linear(pass, wo, saved[attended]);
    add_in_place(runtime, x, saved[middle]);
    normalise(pass, norm2_weight, saved[middle], saved[norm2], saved[norm2_statistics]);
    saved[gate] = apply_linear(pass, w_gate, saved[norm2]);  // (b, s, f)
    saved[up] = apply_linear(pass, w_up, saved[norm2]);      // (b, s, f)
    saved[activated] = swiglu_forward(runtime, saved[gate], saved[up]);
    Tensor y = apply_linear(pass, w_down, saved[activated]);  // (b, s, h)
    add_in_place(runtime, saved[middle], y);
    return y;
  }

  [[nodiscard]] Tensor backward_block(const Pass& pass, const Tensor& dy,
                                      Saved& saved) const override {
    const Tensor d_middle = backward_mlp(pass, dy, saved);
    Tensor dx = backward_attention(pass, d_middle, saved);
    saved.clear();
    return dx;
  }

 private:
  [[nodiscard]] AttentionShape attention_shape(const Tensor& x) const {
    return {x.shape()[0], x.shape()[1], options_.num_attention_heads, options_.num_query_groups,
            head_size_};
  }

  // q, k and v have a tensor each.
  static Heads heads(const Tensor& tensor) { return {tensor, last_dim(tensor), 0}; }

  void normalise(const Pass& pass, int weight, const Tensor& x, Tensor& y,
                 Tensor& statistics) const {
    NormOutput norm = rms_norm_forward(pass.runtime, x, pass.weight(weight), options_.norm_epsilon);
    y = std::move(norm.y);
    statistics = std::move(norm.statistics);
  }

  // y = middle + down(silu(gate(n)) * up(n)), n = norm2(middle); returns the gradient of middle.
  [[nodiscard]] static Tensor backward_mlp(const Pass& pass, const Tensor& dy, Saved& saved) {
    Runtime& runtime = pass.runtime;
    finish_linear(pass, w_down, dy, saved[activated]);
    saved[activated] = {};
    Tensor d_up = linear_backward_input(runtime, dy, pass.weight(w_down));  // (b, s, f)
    Tensor d_gate = swiglu_backward(runtime, saved[gate], saved[up], d_up);
    saved[gate] = {};
    saved[up] = {};
    finish_linear(pass, w_up, d_up, saved[norm2]);
    finish_linear(pass, w_gate, d_gate, saved[norm2]);
    saved[norm2] = {};
    Tensor d = linear_backward_input(runtime, d_up, pass.weight(w_up));  // (b, s, h)
    d_up = {};
    linear_backward_input_add(runtime, d_gate, pass.weight(w_gate), d);
    d_gate = {};
    d = finish_rms_norm(pass, norm2_weight, d, saved[middle], saved[norm2_statistics]);
    saved[middle] = {};
    saved[norm2_statistics] = {};
    add_in_place(runtime, dy, d);
    return d;
  }

  // middle = x + wo(attention(norm1(x))); returns the gradient of x.
  [[nodiscard]] Tensor backward_attention(const Pass& pass, const Tensor& dy, Saved& saved) const {
    Runtime& runtime = pass.runtime;
    finish_linear(pass, wo, dy, saved[attended]);
    Tensor d = linear_backward_input(runtime, dy, pass.weight(wo));  // (b, s, h)
    const auto like = [&](const Tensor& tensor) {
      return runtime.allocate(MemoryCategory::activations, tensor.shape(), tensor.dtype());
    };
    Tensor dq = like(saved[q]);
    Tensor dk = like(saved[k]);
    Tensor dv = like(saved[v]);
    attention_backward(runtime, attention_shape(dy), heads(saved[q]), heads(saved[k]),
                       heads(saved[v]), {saved[attended], saved[log_sum_exp]}, d, heads(dq),
                       heads(dk), heads(dv));
    d = {};
    for (const BlockSaved used : {q, k, v, attended, log_sum_exp}) saved[used] = {};
    rotary_backward(runtime, dq, head_size_, options_.rope_theta);
    rotary_backward(runtime, dk, head_size_, options_.rope_theta);
    finish_linear(pass, wv, dv, saved[norm1]);
    finish_linear(pass, wk, dk, saved[norm1]);
    finish_linear(pass, wq, dq, saved[norm1]);
    saved[norm1] = {};
    d = linear_backward_input(runtime, dq, pass.weight(wq));  // (b, s, h)
    linear_backward_input_add(runtime, dk, pass.weight(wk), d);
    linear_backward_input_add(runtime, dv, pass.weight(wv), d);
    dq = {};
    dk = {};
    dv = {};
    d = finish_rms_norm(pass, norm1_weight, d, saved[input], saved[norm1_statistics]);
    add_in_place(runtime, dy, d);
    return d;
  }

  ModelOptions options_;
  std::int64_t head_size_;  // d
};

}  // namespace

std::unique_ptr<Model> make_llama(const ModelOptions& options) {
  require_transformer(options);
  const std::int64_t head_size = options.hidden_size / options.num_attention_heads;
  if (head_size % 2 != 0) {
    throw UsageError(
        "E0627",
        "rotary positions turn pairs of elements, but a head has " + std::to_string(head_size),
        "choose hidden_size / num_attention_heads even");
  }
  return std::make_unique<Transformer>(options, std::make_unique<Llama>(options));
}

}  // namespace shardsim
