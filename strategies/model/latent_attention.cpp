#include "strategies/model/latent_attention.hpp"

#include <span>
#include <utility>

#include "strategies/model/columns.hpp"
#include "strategies/model/embedding.hpp"
#include "strategies/sharding/tensor_parallel.hpp"

namespace shardsim {

LatentAttention::LatentAttention(const ModelOptions& options)
    : SelfAttention(options, {}),
      head_{options.qk_nope_head_dim, options.qk_rope_head_dim, options.value_size()} {
  int next = 0;
  if (has_query_latent()) {
    wq_down_ = next++;
    q_norm_ = next++;
  }
  for (int* const place : {&wq_up_, &wkv_down_, &kv_norm_, &wkv_up_, &wo_}) *place = next++;
}

void LatentAttention::add_parameters(ParameterTable& table, const std::string& name,
                                     int /*block*/) const {
  const std::string here = name + ".attention.";
  const Init init{Init::Kind::bell, kInitScale};
  const Init ones{Init::Kind::ones, 0.0};
  const std::int64_t h = options_.hidden_size;
  const std::int64_t a = options_.num_attention_heads;
  const std::int64_t r_q = options_.q_lora_rank;
  const std::int64_t r_kv = options_.kv_lora_rank;
  const int t = options_.tensor_parallel;
  if (has_query_latent()) {
    table.add(here + "wq_down", {r_q, h}, init);
    table.add(here + "q_norm", {r_q}, ones);
    table.add_split(here + "wq_up", {a * head_size_, r_q}, init, 0, t);
  } else {
    table.add_split(here + "wq", {a * head_size_, h}, init, 0, t);
  }
  table.add(here + "wkv_down", {r_kv + head_.shared, h}, init);
  table.add(here + "kv_norm", {r_kv}, ones);
  table.add_split(here + "wkv_up", {a * (head_.own + head_.value), r_kv}, init, 0, t);
  table.add_split(here + "wo", {h, a * head_.value}, init, 1, t);
}

Rotary LatentAttention::query_rotary(const Pass& pass) const {
  Rotary rotary = key_rotary(pass);
  rotary.head_size = head_size_;
  rotary.first = head_.own;
  return rotary;
}

Rotary LatentAttention::key_rotary(const Pass& pass) const {
  const double own = options_.layer(pass.block).rope_theta;
  return {head_.shared, own > 0.0 ? own : options_.rope_theta, head_.shared};
}

Tensor LatentAttention::enter(const Pass& pass, BranchInput& x, std::span<Tensor> kept) const {
  Tensor read = x.entering();
  if (has_query_latent()) kept[raw_q] = apply_linear(pass, wq_down_, read);
  kept[raw_k] = apply_linear(pass, wkv_down_, read);
  if (has_query_latent()) {
    read = {};
    x.drop_recomputed();
  }
  return enter_heads(pass, std::move(read), kept, RegionInput::enters);
}

Tensor LatentAttention::enter_heads(const Pass& pass, Tensor read, std::span<Tensor> kept,
                                    RegionInput how) const {
  make_latents(pass, kept);
  if (has_query_latent()) read = linear_input(pass, kept[latent_q], {wq_up_, Held::norm_output});
  return enter_region(pass, read, columns(), how);
}

void LatentAttention::drop_latents(std::span<Tensor> kept) const {
  for (const std::size_t made : {std::size_t{latent_q}, std::size_t{raw_q + 1},
                                 std::size_t{latent_kv}, std::size_t{raw_k + 1}}) {
    kept[made] = {};
  }
}

void LatentAttention::drop_heads(std::span<Tensor> kept) const {
  if (!options_.recomputes(RecomputeModule::mla_up_proj)) return;
  drop_latents(kept);
  kept[q] = kept[k] = kept[v] = {};
}

// Backward is in the region.
void LatentAttention::remake_heads(const Pass& pass, BranchInput& x, std::span<Tensor> kept) const {
  if (kept[q].defined()) return;
  x.keep();
  Tensor read = has_query_latent() ? Tensor() : x.entering();
  forward_qkv(pass, enter_heads(pass, std::move(read), kept, RegionInput::joins), x, kept);
}

void LatentAttention::make_latents(const Pass& pass, std::span<Tensor> kept) const {
  if (has_query_latent() && !kept[latent_q].defined()) {
    NormOutput normed = apply_norm(pass, q_norm_, {}, kept[raw_q], options_.norm_epsilon);
    kept[latent_q] = std::move(normed.y);
    kept[raw_q + 1] = std::move(normed.statistics);
  }
  if (kept[latent_kv].defined()) return;
  const Tensor raw = copy_columns(pass.runtime, {kept[raw_k], 0, options_.kv_lora_rank});
  NormOutput normed = apply_norm(pass, kv_norm_, {}, raw, options_.norm_epsilon);
  kept[latent_kv] = std::move(normed.y);
  kept[raw_k + 1] = std::move(normed.statistics);
}

void LatentAttention::forward_qkv(const Pass& pass, Tensor entered, BranchInput& x,
                                  std::span<Tensor> kept) const {
  kept[q] = apply_linear(pass, wq_up_, entered);  // (b, s, a d)
  entered = {};
  if (!has_query_latent()) x.drop_recomputed();
  if (has_rotary(pass)) rotary_forward(pass.runtime, kept[q], query_rotary(pass), pass.part);
  Tensor shared = copy_columns(pass.runtime, {kept[raw_k], options_.kv_lora_rank, head_.shared});
  shared = enter_region(pass, shared, columns(), RegionInput::joins);  // (b, s, d_r)
  if (has_rotary(pass)) rotary_forward(pass.runtime, shared, key_rotary(pass), pass.part);
  Tensor kv;  // (b, s, a (d_n + d_v))
  {
    const Tensor latent =
        enter_region(pass, linear_input(pass, kept[latent_kv], {wkv_up_, Held::norm_output}),
                     columns(), RegionInput::joins);
    kv = apply_linear(pass, wkv_up_, latent);
  }
  LatentKeys keys = spread_keys(pass.runtime, kv, shared, head_);
  kept[k] = std::move(keys.k);
  kept[v] = std::move(keys.v);
  if (x.is_dropped()) drop_latents(kept);  // Their norms are recomputed, too.
}

ColumnLinears LatentAttention::backward_qkv(const Pass& pass, Qkv gradients,
                                            std::span<Tensor> kept) const {
  LatentKeyGradients keys =
      spread_keys_backward(pass.runtime, {std::move(gradients[1]), std::move(gradients[2])}, head_);
  if (has_rotary(pass)) {
    rotary_backward(pass.runtime, gradients[0], query_rotary(pass), pass.part);
    rotary_backward(pass.runtime, keys.shared, key_rotary(pass), pass.part);
  }
  kept[k] = std::move(keys.kv);
  kept[v] = std::move(keys.shared);
  ColumnLinears readers;
  readers.add({.k = wq_up_, .dy = std::move(gradients[0])});
  return readers;
}

Tensor LatentAttention::leave(const Pass& pass, std::span<ColumnLinear> readers, BranchInput& x,
                              std::span<Tensor> kept) const {
  make_latents(pass, kept);
  make_columns(pass, kept[latent_kv], {wkv_up_, Held::norm_output});
  if (has_query_latent()) make_columns(pass, kept[latent_q], {wq_up_, Held::norm_output});
  const LinearGradient d_keys =
      linear_gradient(pass, backward_keys(pass, kept), {wkv_down_, Held::tokens});
  finish_linear(pass, wkv_down_, d_keys, x.columns());
  Tensor dx;
  if (has_query_latent()) {
    Tensor d = backward_columns(pass, readers, std::move(kept[latent_q]), columns());
    d = finish_norm(pass, q_norm_, {}, d, kept[raw_q], kept[raw_q + 1]);
    const LinearGradient d_queries =
        linear_gradient(pass, std::exchange(d, Tensor()), {wq_down_, Held::tokens});
    finish_linear(pass, wq_down_, d_queries, x.take());
    dx = backward_input(pass, wq_down_, d_queries.rows);
  } else {
    dx = backward_columns(pass, readers, x.take(), columns());
  }
  return backward_input(pass, wkv_down_, d_keys.rows, std::move(dx));
}

Tensor LatentAttention::backward_keys(const Pass& pass, std::span<Tensor> kept) const {
  PendingTensor d_shared = sum_joined_gradient(pass, std::move(kept[v]), columns());
  ColumnLinear up{.k = wkv_up_, .dy = std::move(kept[k])};
  Tensor d = backward_columns(pass, {&up, 1}, std::move(kept[latent_kv]), columns(),
                              /*wants_input_gradient=*/true, RegionInput::joins);
  {
    const Tensor raw = copy_columns(pass.runtime, {kept[raw_k], 0, options_.kv_lora_rank});
    kept[raw_k] = {};
    d = finish_norm(pass, kv_norm_, {}, d, raw, kept[raw_k + 1]);
  }
  return join_columns(pass.runtime, d, d_shared.take());
}

}  // namespace shardsim
