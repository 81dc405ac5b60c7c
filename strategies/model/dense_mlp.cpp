#include "strategies/model/dense_mlp.hpp"

#include <utility>

#include "strategies/model/feed_forward_activation.hpp"

namespace shardsim {

DenseMlp::DenseMlp(const ModelOptions& options, Options own)
    : own_(std::move(own)),
      activation_(options.activation),
      hidden_size_(options.hidden_size),
      dtype_(options.dtype),
      beside_bytes_(own_.drops_activation || !activation_.is_gated()
                        ? 0.0
                        : options.memory.activation_kept_bytes),
      tensor_parallel_(options.tensor_parallel) {
  const int each = own_.has_bias ? 2 : 1;
  w_up_ = activation_.is_gated() ? each : 0;
  w_down_ = w_up_ + each;
  num_parameters_ = w_down_ + each;
}

void DenseMlp::add_parameters(ParameterTable& table, const std::string& name, int /*block*/) const {
  const std::int64_t h = hidden_size_;
  const std::int64_t f = own_.ffn_hidden_size;
  const Init init{Init::Kind::bell, kInitScale};
  const Init zeros{Init::Kind::zeros, 0.0};
  const std::string full = name + "." + own_.name;
  const auto add_column = [&](const char* column) {
    table.add_split(full + column, {f, h}, init, 0, tensor_parallel_);
    if (own_.has_bias) table.add_split(full + column + ".bias", {f}, zeros, 0, tensor_parallel_);
  };
  if (activation_.is_gated()) add_column(".gate");
  add_column(".up");
  table.add_split(full + ".down", {h, f}, init, 1, tensor_parallel_);
  if (own_.has_bias) table.add(full + ".down.bias", {h}, zeros);
}

Tensor DenseMlp::apply_column(const Pass& pass, int weight, const Tensor& x) const {
  return own_.has_bias ? apply_linear_with_bias(pass, weight, x) : apply_linear(pass, weight, x);
}

Tensor DenseMlp::forward_inside(const Pass& pass, Tensor entered, BranchInput& x,
                                std::span<Tensor> kept) const {
  if (activation_.is_gated()) {
    kept[gate] = apply_column(pass, 0, entered);  // (b, s, f)
    if (own_.gate_scale != 1.0) scale_in_place(pass.runtime, kept[gate], own_.gate_scale);
  }
  kept[up] = apply_column(pass, w_up_, entered);  // (b, s, f)
  entered = {};
  x.drop_recomputed();
  kept[activated] = first_activation(pass.runtime, activation_, kept[gate], kept[up]);
  if (beside_bytes_ > 0.0) {
    const double bytes = static_cast<double>(kept[up].numel()) * beside_bytes_;
    kept[beside] = pass.runtime.occupy(MemoryCategory::activations, bytes);
  }
  for (const Kept each : {gate, up}) narrow_to_stay(pass.runtime, activation_.store, kept[each]);
  return kept[activated];
}

void DenseMlp::drop_row_input(std::span<Tensor> kept, bool is_quantized) const {
  if (own_.drops_activation || is_quantized) kept[activated] = {};
}

Tensor DenseMlp::row_input(const Pass& pass, std::span<Tensor> kept) const {
  if (!kept[activated].defined()) {
    widen(pass, kept);
    return activation_forward(pass.runtime, activation_, kept[gate], kept[up]);
  }
  return std::move(kept[activated]);
}

void DenseMlp::widen(const Pass& pass, std::span<Tensor> kept) const {
  for (const Kept each : {gate, up}) {
    widen_to_read(pass.runtime, activation_.store, dtype_, kept[each]);
  }
}

ColumnLinears DenseMlp::backward_inside(const Pass& pass, Tensor d, std::span<Tensor> kept) const {
  widen(pass, kept);
  Tensor d_gate = activation_backward(pass.runtime, activation_, kept[gate], kept[up], d);
  for (const Kept each : {gate, up, beside}) kept[each] = {};
  ColumnLinears readers;
  if (d_gate.defined()) {
    if (own_.gate_scale != 1.0) scale_in_place(pass.runtime, d_gate, own_.gate_scale);
    readers.add({.k = 0, .has_bias = own_.has_bias, .dy = std::move(d_gate)});
  }
  readers.add({.k = w_up_, .has_bias = own_.has_bias, .dy = std::move(d)});  // That of up.
  return readers;
}

}  // namespace shardsim
