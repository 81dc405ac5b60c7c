#include <array>
#include <span>
#include <string>
#include <utility>

#include "sim/kernel/error.hpp"

#include "strategies/model/activation.hpp"
#include "strategies/model/embedding.hpp"
#include "strategies/model/expert_layer.hpp"
#include "strategies/model/gated_rows.hpp"
#include "strategies/model/make_model.hpp"
#include "strategies/model/pass.hpp"
#include "strategies/model/transformer.hpp"

// Llama: RMS norm before each branch, rotary positions, grouped query heads, SwiGLU, no biases; as
// Qwen2 and Qwen3 have them, biases of attention, and norms of queries and keys.
// Source: Touvron et al., "LLaMA: Open and Efficient Foundation Language Models" (2023).
namespace shardsim {

namespace {

// Parameters of a block, in order; backward reports them in reverse. In a block with experts the
// router comes before the gated MLP, which is that of the shared experts, if there are any, and
// their gate; the routed experts, a unit of their own, come last. Biases stand behind their
// weights.
struct BlockPlaces {
  explicit BlockPlaces(const ModelOptions& options) {
    int next = 0;
    const auto take = [&next](bool is_there = true) { return is_there ? next++ : next; };
    take();  // The first norm.
    for (int* const weight : {&wq, &wk, &wv}) {
      *weight = take();
      take(options.query_key_value_bias);
    }
    const bool has_norms = options.query_key_norm != QueryKeyNorm::none;
    q_norm = take(has_norms);
    k_norm = take(has_norms);
    wo = take();
    take(options.attention_out_bias);
    norm2 = take();
    mlp = next;
  }
  int wq = 0, wk = 0, wv = 0;
  int q_norm = 0, k_norm = 0;  // If there are any.
  int wo = 0;
  int norm2 = 0;
  int mlp = 0;  // The router, or the MLP's first.
};

class Llama final : public TransformerFamily {
 public:
  explicit Llama(const ModelOptions& options) : Llama(options, BlockPlaces(options)) {}

  void add_block(ParameterTable& table, const std::string& name, int block) const override {
    const std::int64_t h = options_.hidden_size;
    const std::int64_t a = options_.num_attention_heads * head_size_;
    const std::int64_t kv = options_.num_query_groups * head_size_;
    const Init init{Init::Kind::bell, kInitScale};
    add_norm(table, name + ".norm1");
    const int t = options_.tensor_parallel;
    for (const auto& [letter, outputs] :
         {std::pair('q', a), std::pair('k', kv), std::pair('v', kv)}) {
      table.add_split(name + ".attention.w" + letter, {outputs, h}, init, 0, t);
      if (!options_.query_key_value_bias) continue;
      table.add_split(name + ".attention.b" + letter, {outputs}, {Init::Kind::zeros, 0.0}, 0, t);
    }
    if (norms_heads()) {
      table.add_for_heads(name + ".attention.q_norm", {head_size_}, {Init::Kind::ones, 0.0}, t);
      table.add_for_heads(name + ".attention.k_norm", {head_size_}, {Init::Kind::ones, 0.0}, t);
    }
    table.add_split(name + ".attention.wo", {h, a}, init, 1, t);
    if (options_.attention_out_bias) {
      table.add(name + ".attention.bo", {h}, {Init::Kind::zeros, 0.0});
    }
    add_norm(table, name + ".norm2");
    const MoeOptions& moe = options_.moe;
    if (!moe.in_block(block)) return add_gated_mlp(table, name + ".mlp", options_.ffn_hidden_size);
    experts_.add_router(table, name + ".router");
    if (moe.has_shared_experts()) {
      add_gated_mlp(table, name + ".shared_experts", moe.shared_ffn_hidden_size);
    }
    if (moe.has_shared_gate) {
      table.add(name + ".shared_experts.out_gate", {1, options_.hidden_size},
                {Init::Kind::bell, kInitScale});
    }
    table.begin_unit(name + ".experts");
    experts_.add_experts(table, name + ".experts");
  }

 private:
  Llama(const ModelOptions& options, const BlockPlaces& at)
      : TransformerFamily(options, {.has_out_bias = options.attention_out_bias,
                                    .out_weight = at.wo,
                                    .norm2_weight = at.norm2,
                                    .out_name = "attention.wo"}),
        at_(at),
        experts_(options) {}

  enum GatedMlp : int { w_gate, w_up, w_down, gated_mlp_size };

  // Names in errors.
  static constexpr const char* kQkv = "attention.wq, wk, wv";
  static constexpr const char* kGateUp = "mlp.gate, up";
  static constexpr const char* kDown = "mlp.down";

  [[nodiscard]] bool norms_heads() const { return options_.query_key_norm != QueryKeyNorm::none; }

  void add_gated_mlp(ParameterTable& table, const std::string& name, std::int64_t f) const {
    const std::int64_t h = options_.hidden_size;
    const int t = options_.tensor_parallel;
    const Init init{Init::Kind::bell, kInitScale};
    table.add_split(name + ".gate", {f, h}, init, 0, t);
    table.add_split(name + ".up", {f, h}, init, 0, t);
    table.add_split(name + ".down", {h, f}, init, 1, t);
  }

  void forward_qkv(const Pass& pass, Saved& saved) const override {
    Tensor entered = enter_region(pass, saved[norm1], kQkv);
    saved[q] = apply_projection(pass, at_.wq, entered);  // (b, s, a d)
    saved[k] = apply_projection(pass, at_.wk, entered);  // (b, s, g d)
    saved[v] = apply_projection(pass, at_.wv, entered);  // (b, s, g d)
    entered = {};
    drop_recomputed(saved, norm1);
    if (norms_heads()) {
      norm_heads(pass, at_.q_norm, q, raw_q, saved);
      norm_heads(pass, at_.k_norm, k, raw_k, saved);
    }
    rotary_forward(pass.runtime, saved[q], rotary(), pass.part);
    rotary_forward(pass.runtime, saved[k], rotary(), pass.part);
  }

  [[nodiscard]] Tensor apply_projection(const Pass& pass, int k, const Tensor& x) const {
    return options_.query_key_value_bias ? apply_linear_with_bias(pass, k, x)
                                         : apply_linear(pass, k, x);
  }

  [[nodiscard]] Rotary rotary() const {
    return {head_size_, options_.rope_theta, options_.rotary_size()};
  }

  // In place of `x` stands its norm, and x in `raw`.
  void norm_heads(const Pass& pass, int weight, BlockSaved x, BlockSaved raw, Saved& saved) const {
    NormOutput norm = apply_norm(pass, weight, false, saved[x], options_.norm_epsilon);
    saved[raw] = std::exchange(saved[x], std::move(norm.y));
    saved[raw + 1] = std::move(norm.statistics);
  }
  // In place of the gradient of the norm stands that of its input.
  void norm_heads_backward(const Pass& pass, int weight, Tensor& d, BlockSaved raw,
                           Saved& saved) const {
    d = finish_norm(pass, weight, false, d, saved[raw], saved[raw + 1]);
    saved[raw] = {};
    saved[raw + 1] = {};
  }

  [[nodiscard]] Tensor backward_qkv(const Pass& pass, Qkv gradients, Saved& saved) const override {
    auto& [dq, dk, dv] = gradients;
    rotary_backward(pass.runtime, dq, rotary(), pass.part);
    rotary_backward(pass.runtime, dk, rotary(), pass.part);
    if (norms_heads()) {
      norm_heads_backward(pass, at_.k_norm, dk, raw_k, saved);
      norm_heads_backward(pass, at_.q_norm, dq, raw_q, saved);
    }
    recompute(pass, 0, input, norm1, saved);
    const bool has_bias = options_.query_key_value_bias;
    std::array<ColumnLinear, 3> readers = {{{.k = at_.wq, .has_bias = has_bias, .dy = dq},
                                            {.k = at_.wk, .has_bias = has_bias, .dy = dk},
                                            {.k = at_.wv, .has_bias = has_bias, .dy = dv}}};
    Tensor d = backward_columns(pass, readers, std::move(saved[norm1]), kQkv);  // (b, s, h)
    for (Tensor& used : gradients) used = {};
    return d;
  }

  [[nodiscard]] Tensor forward_mlp(const Pass& pass, Saved& saved) const override {
    return options_.moe.in_block(pass.block) ? forward_experts(pass, saved)
                                             : forward_gated_mlp(pass, at_.mlp, saved);
  }

  [[nodiscard]] Tensor backward_mlp(const Pass& pass, Tensor dy, Saved& saved) const override {
    return options_.moe.in_block(pass.block)
               ? backward_experts(pass, std::move(dy), saved)
               : backward_gated_mlp(pass, at_.mlp, std::move(dy), saved);
  }

  // down(silu(gate(n)) * up(n)) of n = norm2(middle), which nothing else reads after it; its
  // parameters are the block's from `first` on.
  [[nodiscard]] Tensor forward_gated_mlp(const Pass& pass, int first, Saved& saved) const {
    Tensor entered = enter_region(pass, saved[norm2], kGateUp);
    saved[gate] = apply_linear(pass, first + w_gate, entered);  // (b, s, f)
    saved[up] = apply_linear(pass, first + w_up, entered);      // (b, s, f)
    entered = {};
    drop_recomputed(saved, norm2);
    saved[activated] = swiglu_forward(pass.runtime, saved[gate], saved[up]);
    Tensor y = apply_row_linear(pass, first + w_down, false, saved[activated], kDown);
    if (recomputes_some()) saved[activated] = {};
    return y;  // (b, s, h)
  }

  // The shared experts work while rows travel to the routed ones.
  [[nodiscard]] Tensor forward_experts(const Pass& pass, Saved& saved) const {
    saved.resize(num_saved + std::size_t{num_kept});
    const std::span<Tensor> kept = kept_of(saved);
    const Shape shape = saved[norm2].shape();
    ExpertLayer::Dispatched dispatched = experts_.dispatch(pass, places(), saved[norm2], kept);
    Tensor shared;
    if (has_shared()) {
      shared = forward_shared(pass, saved);
    } else {
      drop_recomputed(saved, norm2);
    }
    Tensor y = experts_.finish(pass, places(), std::move(dispatched), shape, kept);
    if (has_shared()) add_in_place(pass.runtime, shared, y);
    return y;
  }

  // Tensors that a block keeps behind the tensors of ExpertLayer.
  enum SharedKept : std::size_t {
    shared_output = ExpertLayer::num_kept,  ///< With a gate: before it.
    shared_logits,
    num_kept,
  };

  [[nodiscard]] Tensor forward_shared(const Pass& pass, Saved& saved) const {
    if (!options_.moe.has_shared_gate) return forward_gated_mlp(pass, first_shared(), saved);
    const std::span<Tensor> kept = kept_of(saved);
    kept[shared_logits] = apply_linear(pass, shared_gate(), saved[norm2]);
    kept[shared_output] = forward_gated_mlp(pass, first_shared(), saved);
    return gated_rows_forward(pass.runtime, kept[shared_logits], kept[shared_output]);
  }

  [[nodiscard]] bool has_shared() const { return options_.moe.has_shared_experts(); }
  [[nodiscard]] int first_shared() const { return at_.mlp + experts_.router_size(); }
  [[nodiscard]] int shared_gate() const { return first_shared() + gated_mlp_size; }
  [[nodiscard]] ExpertLayer::Places places() const {
    const int shared = has_shared() ? gated_mlp_size : 0;
    const int gate = options_.moe.has_shared_gate ? 1 : 0;
    return {.router = at_.mlp, .experts = first_shared() + shared + gate};
  }
  static std::span<Tensor> kept_of(Saved& saved) { return std::span(saved).subspan(num_saved); }

  // Returns the gradient of n.
  [[nodiscard]] Tensor backward_experts(const Pass& pass, Tensor dy, Saved& saved) const {
    recompute(pass, at_.norm2, middle, norm2, saved);
    const std::span<Tensor> of_layer = kept_of(saved).first(ExpertLayer::num_kept);
    Tensor d = experts_.backward(pass, places(), dy, saved[norm2], of_layer);
    if (!has_shared()) {
      saved[norm2] = {};
      return d;
    }
    if (options_.moe.has_shared_gate) d = backward_shared_gate(pass, dy, std::move(d), saved);
    const Tensor shared = backward_gated_mlp(pass, first_shared(), std::move(dy), saved);
    add_in_place(pass.runtime, shared, d);
    return d;
  }

  // In place of dy stands the gradient of the shared experts' output. Adds to d, the gradient of n.
  [[nodiscard]] Tensor backward_shared_gate(const Pass& pass, Tensor& dy, Tensor d,
                                            Saved& saved) const {
    const std::span<Tensor> kept = kept_of(saved);
    GatedRowsGradient gradient =
        gated_rows_backward(pass.runtime, kept[shared_logits], kept[shared_output], dy);
    kept[shared_logits] = {};
    kept[shared_output] = {};
    dy = std::move(gradient.x);
    finish_linear(pass, shared_gate(), gradient.logits, saved[norm2]);
    return linear_backward_input(pass.runtime, gradient.logits, pass.weight(shared_gate()),
                                 std::move(d));
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
    recompute(pass, at_.norm2, middle, norm2, saved);
    std::array<ColumnLinear, 2> readers = {{{.k = first + w_gate, .dy = std::move(d_gate)},
                                            {.k = first + w_up, .dy = std::move(d_up)}}};
    return backward_columns(pass, readers, std::move(saved[norm2]), kGateUp);  // (b, s, h)
  }

  BlockPlaces at_;
  ExpertLayer experts_;
};

}  // namespace

std::unique_ptr<Model> make_llama(const ModelOptions& options) {
  require_transformer(options);
  const std::int64_t turned = options.rotary_size();
  if (turned < 0 || turned > options.head_size() || turned % 2 != 0) {
    throw UsageError("E0627",
                     concat("rotary positions turn pairs of elements, but ", turned, " of the ",
                            options.head_size(), " of a head"),
                     "choose rotary_dim, head_dim, or hidden_size / num_attention_heads, even");
  }
  return std::make_unique<Transformer>(options, std::make_unique<Llama>(options));
}

}  // namespace shardsim
