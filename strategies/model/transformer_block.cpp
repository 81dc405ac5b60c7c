#include <array>
#include <utility>

#include "strategies/model/transformer_family.hpp"

// Blocks, as all families have them: the order of layers, and what is kept for how long.
namespace shardsim {

namespace {

// Branches, in the names of dropout's random numbers.
constexpr const char* kAttentionBranch = "attention";
constexpr const char* kMlpBranch = "mlp";

}  // namespace

void TransformerFamily::add_norm(ParameterTable& table, const std::string& name) const {
  const Shape shape{options_.hidden_size};
  table.add(traits_.has_layer_norm ? name + ".weight" : name, shape, {Init::Kind::ones, 0.0});
  if (traits_.has_layer_norm) table.add(name + ".bias", shape, {Init::Kind::zeros, 0.0});
}

Tensor TransformerFamily::forward_block(const Pass& pass, const Tensor& x, Saved& saved) const {
  saved.resize(num_saved);
  saved[input] = x;  // (b, s, h)
  normalise(pass, 0, x, norm1, saved);
  forward_qkv(pass, saved);
  attend_to_tokens(pass, saved);
  if (saved[exchanged_qkv].defined()) {
    saved[v] = {};
    if (!keeps_queries_and_keys()) saved[q] = saved[k] = {};
  }
  const BlockPlaces at = places(pass.block);
  saved[middle] = apply_row_linear(pass, at.out_weight, traits_.has_out_bias, gated(pass, saved),
                                   traits_.out_name);
  apply_dropout(pass, kAttentionBranch, saved[middle]);
  saved[masks] = keep_masks(pass, saved[middle]);
  add_in_place(pass.runtime, x, saved[middle]);
  normalise(pass, at.norm2_weight, saved[middle], norm2, saved);
  Tensor y = forward_mlp(pass, saved);
  apply_dropout(pass, kMlpBranch, y);
  add_in_place(pass.runtime, saved[middle], y);
  return y;
}

// y = middle + mlp(norm2(middle)), and before it middle = x + out(attention(qkv(norm1(x)))).
Tensor TransformerFamily::backward_block(const Pass& pass, const Tensor& dy, Saved& saved) const {
  Tensor d_middle = backward_mlp(pass, backward_dropout(pass, kMlpBranch, dy), saved);
  d_middle = backward_norm(pass, places(pass.block).norm2_weight, d_middle, saved[middle],
                           saved[norm2_statistics]);
  saved[middle] = {};
  saved[norm2_statistics] = {};
  add_in_place(pass.runtime, dy, d_middle);
  Tensor dx = backward_attention(pass, d_middle, saved);
  saved.clear();
  return dx;
}

// From the gradient of `middle` to that of x.
Tensor TransformerFamily::backward_attention(const Pass& pass, const Tensor& dy,
                                             Saved& saved) const {
  Tensor d_branch = backward_dropout(pass, kAttentionBranch, dy);
  saved[masks] = {};
  const BlockPlaces at = places(pass.block);
  Tensor d = backward_row_linear(pass, at.out_weight, traits_.has_out_bias, d_branch,
                                 gated(pass, saved), traits_.out_name);  // (b, s, a d)
  d_branch = {};
  if (traits_.has_output_gate) {
    saved[output_gate] = output_gate_backward(pass.runtime, saved[attended], saved[output_gate], d);
  }
  Qkv gradients = allocate_qkv(pass.runtime, d);
  {
    const QkvHeads heads = heads_of(std::span(saved).subspan<q, 3>());
    backward_attend(
        pass, attention_shape(pass, gradients[0]), heads,
        {{saved[attended], saved[log_sum_exp]}, saved[exchanged_qkv], saved[exchanged_y]}, d,
        heads_of(gradients), at.sinks);
  }
  d = {};
  for (const BlockSaved used :
       {q, k, v, attended, log_sum_exp, exchanged_qkv, exchanged_y, scores}) {
    if (used <= k && keeps_queries_and_keys()) continue;
    saved[used] = {};
  }
  d = backward_qkv(pass, std::move(gradients), saved);  // (b, s, h)
  d = backward_norm(pass, 0, d, saved[input], saved[norm1_statistics]);
  add_in_place(pass.runtime, dy, d);
  return d;
}

void TransformerFamily::normalise(Pass pass, int first, const Tensor& x, BlockSaved y,
                                  Saved& saved) const {
  pass.first += first;
  NormOutput norm = forward_norm(pass, x);
  saved[y] = std::move(norm.y);
  saved[y + 1] = std::move(norm.statistics);
}

void TransformerFamily::attend_to_tokens(const Pass& pass, Saved& saved) const {
  const AttentionShape shape = attention_shape(pass, saved[q]);
  Attended attention =
      attend(pass, shape, heads_of(std::span(saved).subspan<q, 3>()), places(pass.block).sinks);
  saved[attended] = std::move(attention.own.y);  // (b, s, a d)
  saved[log_sum_exp] = std::move(attention.own.log_sum_exp);
  saved[exchanged_qkv] = std::move(attention.exchanged_qkv);
  saved[exchanged_y] = std::move(attention.exchanged_y);
  saved[scores] = keep_scores(pass, shape);
}

AttentionShape TransformerFamily::attention_shape(const Pass& pass, const Tensor& queries) const {
  return {.batch = queries.shape()[0],
          .seq_len = queries.shape()[1] * pass.part.parts,
          .num_heads = heads_,
          .num_groups = groups_,
          .head_size = head_size_,
          .mask = options_.layer(pass.block).mask,
          .scale = options_.attention_scale,
          .score_cap = options_.attention_logit_cap};
}

Tensor TransformerFamily::gated(const Pass& pass, const Saved& saved) const {
  if (!traits_.has_output_gate) return saved[attended];
  return output_gate_forward(pass.runtime, saved[attended], saved[output_gate]);
}

QkvHeads TransformerFamily::heads_of(std::span<const Tensor, 3> qkv) const {
  const std::int64_t a = heads_ * head_size_;
  const std::int64_t g = groups_ * head_size_;
  if (!traits_.fuses_qkv) return {{qkv[0], a, 0}, {qkv[1], g, 0}, {qkv[2], g, 0}};
  const std::int64_t row = a + 2 * g;
  return {{qkv[0], row, 0}, {qkv[0], row, a}, {qkv[0], row, a + g}};
}

TransformerFamily::Qkv TransformerFamily::allocate_qkv(Runtime& runtime, const Tensor& d) const {
  const auto of_heads = [&](std::int64_t count) {
    return new_activation(runtime, with_last(d.shape(), count * head_size_), d.dtype());
  };
  if (traits_.fuses_qkv) return {of_heads(heads_ + 2 * groups_)};
  return {of_heads(heads_), of_heads(groups_), of_heads(groups_)};
}

Tensor TransformerFamily::keep_scores(const Pass& pass, const AttentionShape& shape) const {
  const double queries = static_cast<double>(shape.seq_len) / pass.part.parts;
  const double scores =
      queries * static_cast<double>(checked_product({shape.batch, shape.num_heads, shape.seq_len}));
  return pass.runtime.occupy(MemoryCategory::activations, scores * options_.memory.score_bytes);
}

Tensor TransformerFamily::keep_masks(const Pass& pass, const Tensor& y) const {
  if (options_.hidden_dropout <= 0.0) return {};
  const double elements = 2.0 * static_cast<double>(y.numel());
  return pass.runtime.occupy(MemoryCategory::activations, elements * options_.memory.mask_bytes);
}

}  // namespace shardsim
