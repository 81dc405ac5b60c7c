#include <array>
#include <string>
#include <utility>

#include "sim/kernel/error.hpp"

#include "strategies/model/activation.hpp"
#include "strategies/model/attend.hpp"
#include "strategies/model/block_family.hpp"
#include "strategies/model/families.hpp"
#include "strategies/model/region.hpp"
#include "strategies/model/rotary.hpp"

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
  exchanged_qkv,  // See Attended: q, k and v are then not kept.
  exchanged_y,
  middle,  // Input of the second branch.
  norm2,
  norm2_statistics,
  gate,
  up,
  activated,
  num_saved,
};

constexpr double kInitScale = 0.02;

// Names in errors.
constexpr const char* kQkv = "attention.wq, wk, wv";
constexpr const char* kOut = "attention.wo";
constexpr const char* kGateUp = "mlp.gate, up";
constexpr const char* kDown = "mlp.down";
class Llama final : public BlockFamily {
 public:
  using BlockFamily::BlockFamily;

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
    const int t = options_.tensor_parallel;
    table.add_split(name + ".attention.wq", {h, h}, init, 0, t);
    table.add_split(name + ".attention.wk", {kv, h}, init, 0, t);
    table.add_split(name + ".attention.wv", {kv, h}, init, 0, t);
    table.add_split(name + ".attention.wo", {h, h}, init, 1, t);
    add_norm(table, name + ".norm2");
    table.add_split(name + ".mlp.gate", {f, h}, init, 0, t);
    table.add_split(name + ".mlp.up", {f, h}, init, 0, t);
    table.add_split(name + ".mlp.down", {h, f}, init, 1, t);
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
    Tensor entered = enter_region(pass, saved[norm1], kQkv);
    saved[q] = apply_linear(pass, wq, entered);  // (b, s, a d)
    saved[k] = apply_linear(pass, wk, entered);  // (b, s, g d)
    saved[v] = apply_linear(pass, wv, entered);  // (b, s, g d)
    entered = {};
    drop_recomputed(saved[norm1], saved[norm1_statistics]);
    rotary_forward(runtime, saved[q], head_size_, options_.rope_theta, pass.part);
    rotary_forward(runtime, saved[k], head_size_, options_.rope_theta, pass.part);
    Attended attention = attend(pass, attention_shape(pass, saved[q]), heads_in(saved[q], heads_),
                                heads_in(saved[k], groups_), heads_in(saved[v], groups_));
    saved[attended] = std::move(attention.own.y);  // (b, s, a d)
    saved[log_sum_exp] = std::move(attention.own.log_sum_exp);
    saved[exchanged_qkv] = std::move(attention.exchanged_qkv);
    saved[exchanged_y] = std::move(attention.exchanged_y);
    if (saved[exchanged_qkv].defined()) saved[q] = saved[k] = saved[v] = {};
    saved[middle] = apply_row_linear(pass, wo, false, saved[attended], kOut);
    apply_dropout(pass, kAttention, saved[middle]);
    add_in_place(runtime, x, saved[middle]);
    normalise(pass, norm2_weight, saved[middle], saved[norm2], saved[norm2_statistics]);
    entered = enter_region(pass, saved[norm2], kGateUp);
    saved[gate] = apply_linear(pass, w_gate, entered);  // (b, s, f)
    saved[up] = apply_linear(pass, w_up, entered);      // (b, s, f)
    entered = {};
    drop_recomputed(saved[norm2], saved[norm2_statistics]);
    saved[activated] = swiglu_forward(runtime, saved[gate], saved[up]);
    Tensor y = apply_row_linear(pass, w_down, false, saved[activated], kDown);  // (b, s, h)
    if (recomputes_some()) saved[activated] = {};
    apply_dropout(pass, kMlp, y);
    add_in_place(runtime, saved[middle], y);
    return y;
  }

 private:
  // q, k and v have a tensor each.
  [[nodiscard]] Heads heads_in(const Tensor& tensor, std::int64_t count) const {
    return {tensor, count * head_size_, 0};
  }

  // y = middle + down(silu(gate(n)) * up(n)), n = norm2(middle); returns the gradient of middle.
  [[nodiscard]] Tensor backward_mlp(const Pass& pass, const Tensor& dy,
                                    Saved& saved) const override {
    Runtime& runtime = pass.runtime;
    Tensor d_branch = backward_dropout(pass, kMlp, dy);
    if (recomputes_some()) saved[activated] = swiglu_forward(runtime, saved[gate], saved[up]);
    Tensor d_up = backward_row_linear(pass, w_down, false, d_branch, std::move(saved[activated]),
                                      kDown);  // (b, s, f)
    d_branch = {};
    Tensor d_gate = swiglu_backward(runtime, saved[gate], saved[up], d_up);
    saved[gate] = {};
    saved[up] = {};
    if (recomputes_some()) {
      normalise(pass, norm2_weight, saved[middle], saved[norm2], saved[norm2_statistics]);
    }
    std::array<ColumnLinear, 2> readers = {
        {{.k = w_gate, .dy = std::move(d_gate)}, {.k = w_up, .dy = std::move(d_up)}}};
    Tensor d = backward_columns(pass, readers, std::move(saved[norm2]), kGateUp);  // (b, s, h)
    d = finish_rms_norm(pass, norm2_weight, d, saved[middle], saved[norm2_statistics]);
    saved[middle] = {};
    saved[norm2_statistics] = {};
    add_in_place(runtime, dy, d);
    return d;
  }

  // middle = x + wo(attention(norm1(x))); returns the gradient of x.
  [[nodiscard]] Tensor backward_attention(const Pass& pass, const Tensor& dy,
                                          Saved& saved) const override {
    Runtime& runtime = pass.runtime;
    Tensor d_branch = backward_dropout(pass, kAttention, dy);
    Tensor d =
        backward_row_linear(pass, wo, false, d_branch, saved[attended], kOut);  // (b, s, a d)
    d_branch = {};
    const auto of_heads = [&](std::int64_t count) {
      return runtime.allocate(MemoryCategory::activations, with_last(d.shape(), count * head_size_),
                              d.dtype());
    };
    Tensor dq = of_heads(heads_);
    Tensor dk = of_heads(groups_);
    Tensor dv = of_heads(groups_);
    backward_attend(
        pass, attention_shape(pass, dq), heads_in(saved[q], heads_), heads_in(saved[k], groups_),
        heads_in(saved[v], groups_),
        {{saved[attended], saved[log_sum_exp]}, saved[exchanged_qkv], saved[exchanged_y]}, d,
        heads_in(dq, heads_), heads_in(dk, groups_), heads_in(dv, groups_));
    d = {};
    for (const BlockSaved used : {q, k, v, attended, log_sum_exp, exchanged_qkv, exchanged_y}) {
      saved[used] = {};
    }
    rotary_backward(runtime, dq, head_size_, options_.rope_theta, pass.part);
    rotary_backward(runtime, dk, head_size_, options_.rope_theta, pass.part);
    if (recomputes_some()) {
      normalise(pass, norm1_weight, saved[input], saved[norm1], saved[norm1_statistics]);
    }
    std::array<ColumnLinear, 3> readers = {
        {{.k = wq, .dy = dq}, {.k = wk, .dy = dk}, {.k = wv, .dy = dv}}};
    d = backward_columns(pass, readers, std::move(saved[norm1]), kQkv);  // (b, s, h)
    dq = {};
    dk = {};
    dv = {};
    d = finish_rms_norm(pass, norm1_weight, d, saved[input], saved[norm1_statistics]);
    add_in_place(runtime, dy, d);
    return d;
  }
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
