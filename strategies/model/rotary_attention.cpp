#include "strategies/model/rotary_attention.hpp"

#include <array>
#include <span>
#include <utility>

#include "strategies/model/embedding.hpp"

namespace shardsim {

namespace {

constexpr const char* kEntrance = "attention.wq, wk, wv";  // Name in errors.

}  // namespace

RotaryPlaces::RotaryPlaces(const ModelOptions& options, int block) {
  int next = 0;
  const auto take = [&next](bool is_there = true) { return is_there ? next++ : next; };
  take();  // The first norm.
  for (int* const weight : {&wq, &wk, &wv}) {
    *weight = take();
    take(options.query_key_value_bias);
  }
  w_gate = take(options.attention_output_gate);
  const bool has_norms = QueryKeyNorms(options).has_weights();
  norms = take(has_norms);
  take(has_norms);
  if (options.layer(block).has_sinks) sinks = take();
  wo = take();
  take(options.attention_out_bias);
  norm2 = take();
  mlp = next;
}

RotaryAttention::RotaryAttention(const ModelOptions& options)
    : TransformerFamily(options, {.has_out_bias = options.attention_out_bias,
                                  .has_output_gate = options.attention_output_gate,
                                  .out_name = "attention.wo"}),
      norms_(options) {
  for (int block = 0; block < static_cast<int>(options.num_layers); ++block) {
    at_.emplace_back(options, block);
  }
}

BlockPlaces RotaryAttention::places(int block) const {
  const RotaryPlaces& here = at_[to_size(block)];
  return {.out_weight = here.wo, .norm2_weight = here.norm2, .sinks = here.sinks};
}

void RotaryAttention::add_attention(ParameterTable& table, const std::string& name,
                                    int block) const {
  const std::int64_t h = options_.hidden_size;
  const std::int64_t a = options_.num_attention_heads * head_size_;
  const std::int64_t kv = options_.num_query_groups * head_size_;
  const Init init{Init::Kind::bell, kInitScale};
  const Init zeros{Init::Kind::zeros, 0.0};
  const int t = options_.tensor_parallel;
  add_norm(table, name + ".norm1");
  for (const auto& [letter, outputs] :
       {std::pair('q', a), std::pair('k', kv), std::pair('v', kv)}) {
    table.add_split(name + ".attention.w" + letter, {outputs, h}, init, 0, t);
    if (!options_.query_key_value_bias) continue;
    table.add_split(name + ".attention.b" + letter, {outputs}, zeros, 0, t);
  }
  if (options_.attention_output_gate) {
    table.add_split(name + ".attention.w_gate", {a, h}, init, 0, t);
  }
  if (norms_.has_weights()) norms_.add_parameters(table, name + ".attention");
  if (options_.layer(block).has_sinks) {
    table.add_split(name + ".attention.sinks", {options_.num_attention_heads}, init, 0, t);
  }
  table.add_split(name + ".attention.wo", {h, a}, init, 1, t);
  if (options_.attention_out_bias) table.add(name + ".attention.bo", {h}, zeros);
  add_norm(table, name + ".norm2");
}

Tensor RotaryAttention::apply_projection(const Pass& pass, int k, const Tensor& x) const {
  return options_.query_key_value_bias ? apply_linear_with_bias(pass, k, x)
                                       : apply_linear(pass, k, x);
}

Rotary RotaryAttention::rotary(const Pass& pass) const {
  const double own = options_.layer(pass.block).rope_theta;
  return {head_size_, own > 0.0 ? own : options_.rope_theta, options_.rotary_size()};
}

void RotaryAttention::forward_qkv(const Pass& pass, Saved& saved) const {
  const RotaryPlaces& here = at(pass);
  Tensor entered = enter_region(pass, saved[norm1], kEntrance);
  saved[q] = apply_projection(pass, here.wq, entered);  // (b, s, a d)
  saved[k] = apply_projection(pass, here.wk, entered);  // (b, s, g d)
  saved[v] = apply_projection(pass, here.wv, entered);  // (b, s, g d)
  if (options_.attention_output_gate) {
    saved[output_gate] = apply_linear(pass, here.w_gate, entered);  // (b, s, a d)
  }
  entered = {};
  drop_recomputed(saved, norm1);
  if (norms_.come_first()) forward_norms(pass, saved);
  if (!has_rotary(pass)) return;
  rotary_forward(pass.runtime, saved[q], rotary(pass), pass.part);
  rotary_forward(pass.runtime, saved[k], rotary(pass), pass.part);
  if (norms_.come_last()) forward_norms(pass, saved);
}

void RotaryAttention::forward_norms(const Pass& pass, Saved& saved) const {
  QueriesAndKeys x{std::move(saved[q]), std::move(saved[k])};
  QueryKeyKept kept = norms_.forward(pass, at(pass).norms, x);
  saved[q] = std::move(x.q);
  saved[k] = std::move(x.k);
  saved[raw_q] = std::move(kept.q);
  saved[raw_q + 1] = std::move(kept.q_statistics);
  saved[raw_k] = std::move(kept.k);
  saved[raw_k + 1] = std::move(kept.k_statistics);
}

void RotaryAttention::backward_norms(const Pass& pass, Qkv& gradients, Saved& saved) const {
  QueryKeyKept kept{std::move(saved[raw_q]), std::move(saved[raw_k]), std::move(saved[raw_q + 1]),
                    std::move(saved[raw_k + 1])};
  const QueriesAndKeys y{std::move(saved[q]), std::move(saved[k])};
  QueriesAndKeys d{std::move(gradients[0]), std::move(gradients[1])};
  norms_.backward(pass, at(pass).norms, kept, y, d);
  gradients[0] = std::move(d.q);
  gradients[1] = std::move(d.k);
}

Tensor RotaryAttention::backward_qkv(const Pass& pass, Qkv gradients, Saved& saved) const {
  const RotaryPlaces& here = at(pass);
  if (has_rotary(pass)) {
    if (norms_.come_last()) backward_norms(pass, gradients, saved);
    rotary_backward(pass.runtime, gradients[0], rotary(pass), pass.part);
    rotary_backward(pass.runtime, gradients[1], rotary(pass), pass.part);
  }
  if (norms_.come_first()) backward_norms(pass, gradients, saved);
  recompute(pass, 0, input, norm1, saved);
  const bool has_bias = options_.query_key_value_bias;
  std::array<ColumnLinear, 4> readers = {{{.k = here.wq, .has_bias = has_bias, .dy = gradients[0]},
                                          {.k = here.wk, .has_bias = has_bias, .dy = gradients[1]},
                                          {.k = here.wv, .has_bias = has_bias, .dy = gradients[2]},
                                          {.k = here.w_gate, .dy = std::move(saved[output_gate])}}};
  const std::size_t count = options_.attention_output_gate ? 4 : 3;
  Tensor d = backward_columns(pass, std::span(readers).first(count), std::move(saved[norm1]),
                              kEntrance);  // (b, s, h)
  for (Tensor& used : gradients) used = {};
  return d;
}

}  // namespace shardsim
