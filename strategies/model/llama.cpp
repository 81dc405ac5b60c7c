#include <array>
#include <span>
#include <string>
#include <utility>

#include "sim/kernel/error.hpp"

#include "strategies/model/activation.hpp"
#include "strategies/model/expert_layer.hpp"
#include "strategies/model/gated_rows.hpp"
#include "strategies/model/make_model.hpp"
#include "strategies/model/pass.hpp"
#include "strategies/model/rotary_attention.hpp"
#include "strategies/model/transformer.hpp"

// Llama: RMS norm before each branch, attention with rotary positions, and SwiGLU without biases,
// or experts. In a block with experts the router comes before the gated MLP, which is that of the
// shared experts, if there are any, and their gate; the routed experts, a unit of their own, come
// last. Biases stand behind their weights.
// Source: Touvron et al., "LLaMA: Open and Efficient Foundation Language Models" (2023).
namespace shardsim {

namespace {

class Llama final : public RotaryAttention {
 public:
  explicit Llama(const ModelOptions& options) : RotaryAttention(options), experts_(options) {}

  void add_block(ParameterTable& table, const std::string& name, int block) const override {
    add_attention(table, name, block);
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
  enum GatedMlp : int { w_gate, w_up, w_down, gated_mlp_size };

  // Names in errors.
  static constexpr const char* kGateUp = "mlp.gate, up";
  static constexpr const char* kDown = "mlp.down";

  void add_gated_mlp(ParameterTable& table, const std::string& name, std::int64_t f) const {
    const std::int64_t h = options_.hidden_size;
    const int t = options_.tensor_parallel;
    const Init init{Init::Kind::bell, kInitScale};
    table.add_split(name + ".gate", {f, h}, init, 0, t);
    table.add_split(name + ".up", {f, h}, init, 0, t);
    table.add_split(name + ".down", {h, f}, init, 1, t);
  }

  [[nodiscard]] Tensor forward_mlp(const Pass& pass, Saved& saved) const override {
    return options_.moe.in_block(pass.block) ? forward_experts(pass, saved)
                                             : forward_gated_mlp(pass, at(pass).mlp, saved);
  }

  [[nodiscard]] Tensor backward_mlp(const Pass& pass, Tensor dy, Saved& saved) const override {
    return options_.moe.in_block(pass.block)
               ? backward_experts(pass, std::move(dy), saved)
               : backward_gated_mlp(pass, at(pass).mlp, std::move(dy), saved);
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
    ExpertLayer::Dispatched dispatched =
        experts_.dispatch(pass, experts_at(pass), saved[norm2], kept);
    Tensor shared;
    if (has_shared()) {
      shared = forward_shared(pass, saved);
    } else {
      drop_recomputed(saved, norm2);
    }
    Tensor y = experts_.finish(pass, experts_at(pass), std::move(dispatched), shape, kept);
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
    if (!options_.moe.has_shared_gate) return forward_gated_mlp(pass, first_shared(pass), saved);
    const std::span<Tensor> kept = kept_of(saved);
    kept[shared_logits] = apply_linear(pass, shared_gate(pass), saved[norm2]);
    kept[shared_output] = forward_gated_mlp(pass, first_shared(pass), saved);
    return gated_rows_forward(pass.runtime, kept[shared_logits], kept[shared_output]);
  }

  [[nodiscard]] bool has_shared() const { return options_.moe.has_shared_experts(); }
  [[nodiscard]] int first_shared(const Pass& pass) const {
    return at(pass).mlp + experts_.router_size();
  }
  [[nodiscard]] int shared_gate(const Pass& pass) const {
    return first_shared(pass) + gated_mlp_size;
  }
  [[nodiscard]] ExpertLayer::Places experts_at(const Pass& pass) const {
    const int shared = has_shared() ? gated_mlp_size : 0;
    const int gate = options_.moe.has_shared_gate ? 1 : 0;
    return {.router = at(pass).mlp, .experts = first_shared(pass) + shared + gate};
  }
  static std::span<Tensor> kept_of(Saved& saved) { return std::span(saved).subspan(num_saved); }

  // Returns the gradient of n.
  [[nodiscard]] Tensor backward_experts(const Pass& pass, Tensor dy, Saved& saved) const {
    recompute(pass, at(pass).norm2, middle, norm2, saved);
    const std::span<Tensor> of_layer = kept_of(saved).first(ExpertLayer::num_kept);
    Tensor d = experts_.backward(pass, experts_at(pass), dy, saved[norm2], of_layer);
    if (!has_shared()) {
      saved[norm2] = {};
      return d;
    }
    if (options_.moe.has_shared_gate) d = backward_shared_gate(pass, dy, std::move(d), saved);
    const Tensor shared = backward_gated_mlp(pass, first_shared(pass), std::move(dy), saved);
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
    finish_linear(pass, shared_gate(pass), gradient.logits, saved[norm2]);
    return linear_backward_input(pass.runtime, gradient.logits, pass.weight(shared_gate(pass)),
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
    recompute(pass, at(pass).norm2, middle, norm2, saved);
    std::array<ColumnLinear, 2> readers = {{{.k = first + w_gate, .dy = std::move(d_gate)},
                                            {.k = first + w_up, .dy = std::move(d_up)}}};
    return backward_columns(pass, readers, std::move(saved[norm2]), kGateUp);  // (b, s, h)
  }

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
