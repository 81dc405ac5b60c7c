#include "strategies/model/gated_mlp.hpp"

#include <utility>

#include "strategies/model/activation.hpp"

namespace shardsim {

void GatedMlp::add_parameters(ParameterTable& table, const std::string& name, int /*block*/) const {
  const std::int64_t h = hidden_size_;
  const std::int64_t f = ffn_hidden_size_;
  const Init init{Init::Kind::bell, kInitScale};
  const std::string full = name + "." + name_;
  table.add_split(full + ".gate", {f, h}, init, 0, tensor_parallel_);
  table.add_split(full + ".up", {f, h}, init, 0, tensor_parallel_);
  table.add_split(full + ".down", {h, f}, init, 1, tensor_parallel_);
}

Tensor GatedMlp::forward_inside(const Pass& pass, Tensor entered, BranchInput& x,
                                std::span<Tensor> kept) const {
  kept[gate] = apply_linear(pass, w_gate, entered);  // (b, s, f)
  kept[up] = apply_linear(pass, w_up, entered);      // (b, s, f)
  entered = {};
  x.drop_recomputed();
  kept[activated] = swiglu_forward(pass.runtime, kept[gate], kept[up]);
  return kept[activated];
}

void GatedMlp::drop_row_input(std::span<Tensor> kept) const {
  if (recomputes_some_) kept[activated] = {};
}

Tensor GatedMlp::row_input(const Pass& pass, std::span<Tensor> kept) const {
  if (recomputes_some_) return swiglu_forward(pass.runtime, kept[gate], kept[up]);
  return std::move(kept[activated]);
}

std::vector<ColumnLinear> GatedMlp::backward_inside(const Pass& pass, Tensor d,
                                                    std::span<Tensor> kept) const {
  Tensor d_gate = swiglu_backward(pass.runtime, kept[gate], kept[up], d);  // d is that of up now.
  kept[gate] = {};
  kept[up] = {};
  return {{.k = w_gate, .dy = std::move(d_gate)}, {.k = w_up, .dy = std::move(d)}};
}

}  // namespace shardsim
