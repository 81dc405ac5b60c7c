#include "strategies/model/expert_feed_forward.hpp"

#include <utility>

#include "backends/graph_scope.hpp"

#include "strategies/model/activation.hpp"
#include "strategies/model/gated_rows.hpp"

namespace shardsim {

namespace {

// Nothing is dropped beside what runs again anyway.
DenseMlp::Options shared_options(const ModelOptions& options) {
  const bool is_within = options.recomputes(RecomputeModule::moe) ||
                         options.recomputes(RecomputeModule::shared_experts);
  return {.name = "shared_experts",
          .ffn_hidden_size = options.moe.shared_ffn_hidden_size,
          .drops_activation = !is_within && options.recomputes(RecomputeModule::activation)};
}

}  // namespace

ExpertFeedForward::ExpertFeedForward(const ModelOptions& options)
    : experts_(options),
      shared_(options, shared_options(options)),
      hidden_size_(options.hidden_size),
      has_shared_(options.moe.has_shared_experts()),
      has_gate_(options.moe.has_shared_gate),
      captures_router_(options.graphs.has(GraphModule::moe_router)),
      recomputes_all_(options.recompute == Recompute::full),
      runs_again_(options.recomputes(RecomputeModule::moe)),
      shared_runs_again_(has_shared_ && !runs_again_ &&
                         options.recomputes(RecomputeModule::shared_experts)) {
  const int shared = has_shared_ ? shared_.num_parameters() : 0;
  places_ = {.router = 0, .experts = first_shared() + shared + (has_gate_ ? 1 : 0)};
}

void ExpertFeedForward::add_parameters(ParameterTable& table, const std::string& name,
                                       int block) const {
  experts_.add_router(table, name + ".router");
  experts_.add_latents(table, name);
  if (has_shared_) shared_.add_parameters(table, name, block);
  if (has_gate_) {
    const Init init{Init::Kind::bell, kInitScale};
    table.never_quantize(table.add(name + ".shared_experts.out_gate", {1, hidden_size_}, init));
  }
  table.begin_unit(name + ".experts");
  experts_.add_experts(table, name + ".experts");
}

OffloadModule ExpertFeedForward::reader_of(std::size_t kept) const {
  const std::size_t first = shared_.num_kept();
  if (kept == first + ExpertLayer::input) return OffloadModule::expert_fc1;
  const bool is_activated = kept == first + ExpertLayer::gate || kept == first + ExpertLayer::up;
  return is_activated ? OffloadModule::moe_act : OffloadModule::everything;
}

Tensor ExpertFeedForward::forward(const Pass& pass, BranchInput& x, std::span<Tensor> kept) const {
  Tensor y = run_forward(pass, x, kept);
  if (runs_again_) drop_all(kept);
  if (runs_again_ || shared_runs_again_) x.drop_quantized();
  return y;
}

// The shared experts work while rows travel to the routed ones.
Tensor ExpertFeedForward::run_forward(const Pass& pass, BranchInput& x,
                                      std::span<Tensor> kept) const {
  {
    const Runtime::Graph graph(pass.runtime, captures_router_);
    experts_.route(pass, places_, x.value(), of_layer(kept));
  }
  const Shape shape = x.value().shape();
  ExpertLayer::Dispatched dispatched = experts_.dispatch(pass, places_, x.value(), of_layer(kept));
  Tensor shared;
  if (has_shared_) {
    shared = forward_shared(pass, x, kept);
    if (shared_runs_again_) drop_shared(kept);
  } else {
    x.drop_recomputed();
  }
  Tensor y = experts_.finish(pass, places_, std::move(dispatched), shape, of_layer(kept));
  if (has_shared_) add_in_place(pass.runtime, shared, y);
  return y;
}

Tensor ExpertFeedForward::forward_shared(const Pass& pass, BranchInput& x,
                                         std::span<Tensor> kept) const {
  if (has_gate_) own(kept)[shared_logits] = apply_linear(pass, shared_gate(), x.value());
  Tensor y = shared_.forward(part_of(pass, first_shared()), x, kept.first(shared_.num_kept()));
  if (!has_gate_) return y;
  own(kept)[shared_output] = std::move(y);
  return gated_rows_forward(pass.runtime, own(kept)[shared_logits], own(kept)[shared_output]);
}

void ExpertFeedForward::drop_shared(std::span<Tensor> kept) const {
  drop_all(kept.first(shared_.num_kept()));
  own(kept)[shared_logits] = {};
  own(kept)[shared_output] = {};
}

Tensor ExpertFeedForward::backward(const Pass& pass, Tensor dy, BranchInput& x,
                                   std::span<Tensor> kept) const {
  if (runs_again_) {
    x.keep();
    static_cast<void>(run_forward(pass, x, kept));
  }
  Tensor d = experts_.backward(pass, places_, dy, x.value(), of_layer(kept));
  if (!has_shared_) {
    x.drop();
    return d;
  }
  if (shared_runs_again_) {
    x.keep();
    static_cast<void>(forward_shared(pass, x, kept));
  }
  if (has_gate_) d = backward_gate(pass, dy, x.value(), std::move(d), kept);
  const Tensor shared = shared_.backward(part_of(pass, first_shared()), std::move(dy), x,
                                         kept.first(shared_.num_kept()));
  add_in_place(pass.runtime, shared, d);
  return d;
}

Tensor ExpertFeedForward::backward_gate(const Pass& pass, Tensor& dy, const Tensor& x, Tensor d,
                                        std::span<Tensor> kept) const {
  GatedRowsGradient gradient =
      gated_rows_backward(pass.runtime, own(kept)[shared_logits], own(kept)[shared_output], dy);
  own(kept)[shared_logits] = {};
  own(kept)[shared_output] = {};
  dy = std::move(gradient.x);
  finish_linear(pass, shared_gate(), gradient.logits, x);
  return linear_backward_input(pass.runtime, gradient.logits, pass.weight(shared_gate()),
                               std::move(d));
}

}  // namespace shardsim
