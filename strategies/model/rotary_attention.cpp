#include "strategies/model/rotary_attention.hpp"

#include <array>
#include <span>
#include <utility>

#include "strategies/model/columns.hpp"
#include "strategies/model/embedding.hpp"
#include "strategies/model/head_norm.hpp"

namespace shardsim {

namespace {

bool has_any_gate(const ModelOptions& options) {
  return options.attention_output_gate || options.attention_head_gate;
}

}  // namespace

RotaryPlaces::RotaryPlaces(const ModelOptions& options, int block, bool keys_are_values) {
  int next = 0;
  const auto take = [&next](bool is_there = true) { return is_there ? next++ : next; };
  for (int* const weight : {&wq, &wk, &wv}) {
    if (weight == &wv && keys_are_values) continue;
    *weight = take();
    take(options.query_key_value_bias);
  }
  if (keys_are_values) wv = wk;
  w_gate = take(has_any_gate(options));
  const bool has_norms = QueryKeyNorms(options).has_weights();
  norms = take(has_norms);
  take(has_norms);
  if (options.layer(block).has_sinks) sinks = take();
  wo = take();
}

RotaryAttention::RotaryAttention(const ModelOptions& options, bool keys_are_values)
    : SelfAttention(options, {.has_output_gate = has_any_gate(options),
                              .gates_heads = options.attention_head_gate}),
      norms_(options),
      keys_are_values_(keys_are_values) {
  for (int block = 0; block < options.num_blocks(); ++block) {
    at_.emplace_back(options, block, keys_are_values);
  }
}

void RotaryAttention::add_parameters(ParameterTable& table, const std::string& name,
                                     int block) const {
  const std::int64_t h = options_.hidden_size;
  const std::int64_t a = options_.num_attention_heads * head_size_;
  const std::int64_t k_width = options_.num_query_groups * head_size_;
  const std::int64_t v_width = options_.num_query_groups * value_size_;
  const std::int64_t y_width = options_.num_attention_heads * value_size_;
  const Init init{Init::Kind::bell, kInitScale};
  const Init zeros{Init::Kind::zeros, 0.0};
  const int t = options_.tensor_parallel;
  struct Projection {
    char letter;
    std::int64_t outputs;
    std::int64_t heads;
  };
  for (const Projection& each : {Projection{'q', a, options_.num_attention_heads},
                                 Projection{'k', k_width, options_.num_query_groups},
                                 Projection{'v', v_width, options_.num_query_groups}}) {
    if (each.letter == 'v' && keys_are_values_) continue;
    table.add_for_groups(name + ".attention.w" + each.letter, {each.outputs, h}, init, each.heads,
                         t);
    if (!options_.query_key_value_bias) continue;
    table.add_for_groups(name + ".attention.b" + each.letter, {each.outputs}, zeros, each.heads, t);
  }
  if (has_any_gate(options_)) {
    const std::int64_t gates =
        options_.attention_head_gate ? options_.num_attention_heads : y_width;
    table.add_split(name + ".attention.w_gate", {gates, h}, init, 0, t);
  }
  if (norms_.has_weights()) norms_.add_parameters(table, name + ".attention");
  if (options_.layer(block).has_sinks) {
    table.add_split(name + ".attention.sinks", {options_.num_attention_heads}, init, 0, t);
  }
  table.add_split(name + ".attention.wo", {h, y_width}, init, 1, t);
  if (options_.attention_out_bias) table.add(name + ".attention.bo", {h}, zeros);
}

Tensor RotaryAttention::apply_projection(const Pass& pass, int weight, const Tensor& x) const {
  return options_.query_key_value_bias ? apply_linear_with_bias(pass, weight, x)
                                       : apply_linear(pass, weight, x);
}

Rotary RotaryAttention::rotary(const Pass& pass) const {
  const double own = options_.layer(pass.block).rope_theta;
  return {head_size_, own > 0.0 ? own : options_.rope_theta, options_.rotary_size()};
}

void RotaryAttention::forward_qkv(const Pass& pass, Tensor entered, BranchInput& x,
                                  std::span<Tensor> kept) const {
  const RotaryPlaces& here = at(pass);
  kept[q] = apply_projection(pass, here.wq, entered);  // (b, s, a d)
  kept[k] = apply_projection(pass, here.wk, entered);  // (b, s, g d)
  forward_values(pass, entered, kept);
  if (has_any_gate(options_)) {
    kept[output_gate] = apply_linear(pass, here.w_gate, entered);  // (b, s, a d_v) or (b, s, a)
  }
  entered = {};
  x.drop_recomputed();
  if (norms_.come_first()) forward_norms(pass, kept);
  if (!has_rotary(pass)) {
    const QueryTemperature& temperature = options_.query_temperature;
    if (temperature.acts()) {
      query_temperature_forward(pass.runtime, kept[q], temperature, pass.part);
    }
    return;
  }
  rotary_forward(pass.runtime, kept[q], rotary(pass), pass.part);
  rotary_forward(pass.runtime, kept[k], rotary(pass), pass.part);
  if (norms_.come_last()) forward_norms(pass, kept);
}

// Where keys are values these are the same tensor, until one of them changes in place.
void RotaryAttention::forward_values(const Pass& pass, const Tensor& entered,
                                     std::span<Tensor> kept) const {
  const bool changes = options_.value_norm || options_.value_scale != 1.0;
  const bool turns_alone = has_rotary(pass) && !norms_.come_first();
  if (!keys_are_values_) {
    kept[v] = apply_projection(pass, at(pass).wv, entered);
  } else if (changes || turns_alone) {
    kept[v] = copy_columns(pass.runtime, all_columns(kept[k]));
  } else {
    kept[v] = kept[k];
  }
  if (options_.value_scale != 1.0) scale_in_place(pass.runtime, kept[v], options_.value_scale);
  if (options_.value_norm) {
    kept[value_statistics] =
        unit_norm_forward(pass.runtime, kept[v], value_size_, options_.norm_epsilon);
  }
}

void RotaryAttention::backward_values(const Pass& pass, Tensor& d, std::span<Tensor> kept) const {
  if (options_.value_norm) {
    unit_norm_backward(pass.runtime, kept[v], kept[value_statistics], d);
    kept[v] = kept[value_statistics] = {};
  }
  if (options_.value_scale != 1.0) scale_in_place(pass.runtime, d, options_.value_scale);
}

void RotaryAttention::forward_norms(const Pass& pass, std::span<Tensor> kept) const {
  QueriesAndKeys x{std::move(kept[q]), std::move(kept[k])};
  QueryKeyKept raw = norms_.forward(pass, at(pass).norms, x);
  kept[q] = std::move(x.q);
  kept[k] = std::move(x.k);
  kept[raw_q] = std::move(raw.q);
  kept[raw_q + 1] = std::move(raw.q_statistics);
  kept[raw_k] = std::move(raw.k);
  kept[raw_k + 1] = std::move(raw.k_statistics);
}

void RotaryAttention::backward_norms(const Pass& pass, Qkv& gradients,
                                     std::span<Tensor> kept) const {
  QueryKeyKept raw{std::move(kept[raw_q]), std::move(kept[raw_k]), std::move(kept[raw_q + 1]),
                   std::move(kept[raw_k + 1])};
  const QueriesAndKeys y{std::move(kept[q]), std::move(kept[k])};
  QueriesAndKeys d{std::move(gradients[0]), std::move(gradients[1])};
  norms_.backward(pass, at(pass).norms, raw, y, d);
  gradients[0] = std::move(d.q);
  gradients[1] = std::move(d.k);
}

ColumnLinears RotaryAttention::backward_qkv(const Pass& pass, Qkv gradients,
                                            std::span<Tensor> kept) const {
  const RotaryPlaces& here = at(pass);
  backward_values(pass, gradients[2], kept);
  if (has_rotary(pass)) {
    if (norms_.come_last()) backward_norms(pass, gradients, kept);
    rotary_backward(pass.runtime, gradients[0], rotary(pass), pass.part);
    rotary_backward(pass.runtime, gradients[1], rotary(pass), pass.part);
  } else if (options_.query_temperature.acts()) {
    query_temperature_backward(pass.runtime, gradients[0], options_.query_temperature, pass.part);
  }
  if (norms_.come_first()) backward_norms(pass, gradients, kept);
  const bool has_bias = options_.query_key_value_bias;
  ColumnLinears readers;
  const std::array<int, 3> weights = {here.wq, here.wk, here.wv};
  if (keys_are_values_) {
    add_in_place(pass.runtime, std::exchange(gradients[2], Tensor()), gradients[1]);
  }
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    kept[q + i] = gradients[i];
    readers.add({.k = weights[i], .has_bias = has_bias, .dy = std::move(gradients[i])});
  }
  if (has_any_gate(options_)) {
    readers.add({.k = here.w_gate, .dy = std::move(kept[output_gate])});
  }
  return readers;
}

}  // namespace shardsim
