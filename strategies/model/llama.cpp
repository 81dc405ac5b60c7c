#include <array>
#include <span>
#include <string>
#include <utility>

#include "sim/kernel/error.hpp"

#include "strategies/model/activation.hpp"
#include "strategies/model/embedding.hpp"
#include "strategies/model/expert_layer.hpp"
#include "strategies/model/make_model.hpp"
#include "strategies/model/pass.hpp"
#include "strategies/model/transformer.hpp"

// Llama: RMS norm before each branch, rotary positions, grouped query heads, SwiGLU, no biases.
// Source: Touvron et al., "LLaMA: Open and Efficient Foundation Language Models" (2023).
namespace shardsim {

namespace {

class Llama final : public BlockFamily {
 public:
  explicit Llama(const ModelOptions& options) : BlockFamily(options), experts_(options) {}

  [[nodiscard]] bool has_learned_positions() const override { return false; }

  void add_norm(ParameterTable& table, const std::string& name) const override {
    table.add(name, {options_.hidden_size}, {Init::Kind::ones, 0.0});
  }

  void add_block(ParameterTable& table, const std::string& name, int block) const override {
    const std::int64_t h = options_.hidden_size;
    const std::int64_t kv = options_.num_query_groups * head_size_;
    const Init init{Init::Kind::bell, kInitScale};
    add_norm(table, name + ".norm1");
    const int t = options_.tensor_parallel;
    table.add_split(name + ".attention.wq", {h, h}, init, 0, t);
    table.add_split(name + ".attention.wk", {kv, h}, init, 0, t);
    table.add_split(name + ".attention.wv", {kv, h}, init, 0, t);
    table.add_split(name + ".attention.wo", {h, h}, init, 1, t);
    add_norm(table, name + ".norm2");
    const MoeOptions& moe = options_.moe;
    if (!moe.in_block(block)) return add_gated_mlp(table, name + ".mlp", options_.ffn_hidden_size);
    experts_.add_router(table, name + ".router");
    if (moe.num_shared_experts > 0) {
      add_gated_mlp(table, name + ".shared_experts", moe.num_shared_experts * moe.ffn_hidden_size);
    }
    table.begin_unit(name + ".experts");
    experts_.add_experts(table, name + ".experts");
  }

  [[nodiscard]] NormOutput forward_norm(const Pass& pass, const Tensor& x) const override {
    return apply_norm(pass, 0, false, x, options_.norm_epsilon);
  }

  [[nodiscard]] Tensor backward_norm(const Pass& pass, const Tensor& dy, const Tensor& x,
                                     const Tensor& statistics) const override {
    return finish_norm(pass, 0, false, dy, x, statistics);
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
    saved[scores] = keep_scores(pass, attention_shape(pass, saved[q]));
    if (saved[exchanged_qkv].defined()) saved[q] = saved[k] = saved[v] = {};
    saved[middle] = apply_row_linear(pass, wo, false, saved[attended], kOut);
    apply_dropout(pass, kAttention, saved[middle]);
    saved[masks] = keep_masks(pass, saved[middle]);
    add_in_place(runtime, x, saved[middle]);
    normalise(pass, norm2_weight, saved[middle], saved[norm2], saved[norm2_statistics]);
    Tensor y = options_.moe.in_block(pass.block) ? forward_experts(pass, saved)
                                                 : forward_gated_mlp(pass, mlp_first, saved);
    apply_dropout(pass, kMlp, y);
    add_in_place(runtime, saved[middle], y);
    return y;
  }

 private:
  // Parameters of a block, in order; backward reports them in reverse. In a block with experts the
  // router comes before the gated MLP, which is that of the shared experts, if there are any; the
  // routed experts, a unit of their own, come last.
  enum Block : int { norm1_weight, wq, wk, wv, wo, norm2_weight, mlp_first, router = mlp_first };
  enum GatedMlp : int { w_gate, w_up, w_down, gated_mlp_size };

  // Tensors that a block keeps for backward, in the order in which forward makes them.
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
    scores,  // See FrameworkMemory, as of masks.
    masks,
    num_saved,
  };

  // Names in errors.
  static constexpr const char* kQkv = "attention.wq, wk, wv";
  static constexpr const char* kOut = "attention.wo";
  static constexpr const char* kGateUp = "mlp.gate, up";
  static constexpr const char* kDown = "mlp.down";

  // q, k and v have a tensor each.
  [[nodiscard]] Heads heads_in(const Tensor& tensor, std::int64_t count) const {
    return {tensor, count * head_size_, 0};
  }

  void add_gated_mlp(ParameterTable& table, const std::string& name, std::int64_t f) const {
    const std::int64_t h = options_.hidden_size;
    const int t = options_.tensor_parallel;
    const Init init{Init::Kind::bell, kInitScale};
    table.add_split(name + ".gate", {f, h}, init, 0, t);
    table.add_split(name + ".up", {f, h}, init, 0, t);
    table.add_split(name + ".down", {h, f}, init, 1, t);
  }

  // down(silu(gate(n)) * up(n)) of n = norm2(middle), which nothing else reads after it; its
  // parameters are the block's from `first` on.
  [[nodiscard]] Tensor forward_gated_mlp(const Pass& pass, int first, Saved& saved) const {
    Tensor entered = enter_region(pass, saved[norm2], kGateUp);
    saved[gate] = apply_linear(pass, first + w_gate, entered);  // (b, s, f)
    saved[up] = apply_linear(pass, first + w_up, entered);      // (b, s, f)
    entered = {};
    drop_recomputed(saved[norm2], saved[norm2_statistics]);
    saved[activated] = swiglu_forward(pass.runtime, saved[gate], saved[up]);
    Tensor y = apply_row_linear(pass, first + w_down, false, saved[activated], kDown);
    if (recomputes_some()) saved[activated] = {};
    return y;  // (b, s, h)
  }

  // The shared experts work while rows travel to the routed ones.
  [[nodiscard]] Tensor forward_experts(const Pass& pass, Saved& saved) const {
    saved.resize(num_saved + std::size_t{ExpertLayer::num_kept});
    const std::span<Tensor> kept = kept_of(saved);
    const Shape shape = saved[norm2].shape();
    ExpertLayer::Dispatched dispatched = experts_.dispatch(pass, places(), saved[norm2], kept);
    Tensor shared;
    if (has_shared()) {
      shared = forward_gated_mlp(pass, router + 1, saved);
    } else {
      drop_recomputed(saved[norm2], saved[norm2_statistics]);
    }
    Tensor y = experts_.finish(pass, places(), std::move(dispatched), shape, kept);
    if (has_shared()) add_in_place(pass.runtime, shared, y);
    return y;
  }

  [[nodiscard]] bool has_shared() const { return options_.moe.num_shared_experts > 0; }
  [[nodiscard]] ExpertLayer::Places places() const {
    return {.router = router, .experts = router + 1 + (has_shared() ? gated_mlp_size : 0)};
  }
  static std::span<Tensor> kept_of(Saved& saved) { return std::span(saved).subspan(num_saved); }

  // y = middle + mlp(n), n = norm2(middle); returns the gradient of middle.
  [[nodiscard]] Tensor backward_mlp(const Pass& pass, const Tensor& dy,
                                    Saved& saved) const override {
    Runtime& runtime = pass.runtime;
    Tensor d_branch = backward_dropout(pass, kMlp, dy);
    Tensor d = options_.moe.in_block(pass.block)
                   ? backward_experts(pass, std::exchange(d_branch, Tensor()), saved)
                   : backward_gated_mlp(pass, mlp_first, std::exchange(d_branch, Tensor()), saved);
    d = finish_norm(pass, norm2_weight, false, d, saved[middle], saved[norm2_statistics]);
    saved[middle] = {};
    saved[norm2_statistics] = {};
    add_in_place(runtime, dy, d);
    return d;
  }

  // Returns the gradient of n.
  [[nodiscard]] Tensor backward_experts(const Pass& pass, Tensor dy, Saved& saved) const {
    if (recomputes_some()) {
      normalise(pass, norm2_weight, saved[middle], saved[norm2], saved[norm2_statistics]);
    }
    Tensor d = experts_.backward(pass, places(), dy, saved[norm2], kept_of(saved));
    if (!has_shared()) {
      saved[norm2] = {};
      return d;
    }
    const Tensor shared = backward_gated_mlp(pass, router + 1, std::move(dy), saved);
    add_in_place(pass.runtime, shared, d);
    return d;
  }

  // The same for the gated MLP alone. Drops n.
  [[nodiscard]] Tensor backward_gated_mlp(const Pass& pass, int first, Tensor d_branch,
                                          Saved& saved) const {
    Runtime& runtime = pass.runtime;
    if (recomputes_some()) saved[activated] = swiglu_forward(runtime, saved[gate], saved[up]);
    Tensor d_up = backward_row_linear(pass, first + w_down, false, d_branch,
                                      std::move(saved[activated]), kDown);  // (b, s, f)
    d_branch = {};
    Tensor d_gate = swiglu_backward(runtime, saved[gate], saved[up], d_up);
    saved[gate] = {};
    saved[up] = {};
    if (recomputes_some() && !saved[norm2].defined()) {
      normalise(pass, norm2_weight, saved[middle], saved[norm2], saved[norm2_statistics]);
    }
    std::array<ColumnLinear, 2> readers = {{{.k = first + w_gate, .dy = std::move(d_gate)},
                                            {.k = first + w_up, .dy = std::move(d_up)}}};
    return backward_columns(pass, readers, std::move(saved[norm2]), kGateUp);  // (b, s, h)
  }

  // middle = x + wo(attention(norm1(x))); returns the gradient of x.
  [[nodiscard]] Tensor backward_attention(const Pass& pass, const Tensor& dy,
                                          Saved& saved) const override {
    Runtime& runtime = pass.runtime;
    Tensor d_branch = backward_dropout(pass, kAttention, dy);
    saved[masks] = {};
    Tensor d =
        backward_row_linear(pass, wo, false, d_branch, saved[attended], kOut);  // (b, s, a d)
    d_branch = {};
    const auto of_heads = [&](std::int64_t count) {
      return new_activation(runtime, with_last(d.shape(), count * head_size_), d.dtype());
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
    for (const BlockSaved used :
         {q, k, v, attended, log_sum_exp, exchanged_qkv, exchanged_y, scores}) {
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
    d = finish_norm(pass, norm1_weight, false, d, saved[input], saved[norm1_statistics]);
    add_in_place(runtime, dy, d);
    return d;
  }

  ExpertLayer experts_;
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
