#include "strategies/model/self_attention.hpp"

#include <utility>

#include "strategies/model/activation.hpp"
#include "strategies/model/gated_rows.hpp"

namespace shardsim {

Tensor SelfAttention::forward_inside(const Pass& pass, Tensor entered, BranchInput& x,
                                     std::span<Tensor> kept) const {
  forward_qkv(pass, std::move(entered), x, kept);
  attend_to_tokens(pass, kept);
  if (options_.recomputes(RecomputeModule::core_attn)) {
    for (const Kept dropped : {log_sum_exp, exchanged_qkv, exchanged_y, scores}) kept[dropped] = {};
  }
  drop_exchanged(kept);
  drop_heads(kept);
  return row_input(pass, kept);
}

void SelfAttention::drop_exchanged(std::span<Tensor> kept) const {
  if (!kept[exchanged_qkv].defined()) return;
  if (!keeps_values()) kept[v] = {};
  if (!keeps_queries_and_keys()) kept[q] = kept[k] = {};
}

void SelfAttention::remake(const Pass& pass, BranchInput& x, std::span<Tensor> kept) const {
  if (!kept[exchanged_qkv].defined()) remake_heads(pass, x, kept);
  if (!options_.recomputes(RecomputeModule::core_attn)) return;
  kept[attended] = {};
  attend_to_tokens(pass, kept);
  drop_exchanged(kept);
}

// y, or y times its gate.
Tensor SelfAttention::row_input(const Pass& pass, std::span<Tensor> kept) const {
  if (!traits_.has_output_gate) return kept[attended];
  if (traits_.gates_heads) {
    return gated_rows_forward(pass.runtime, kept[output_gate], by_head(kept[attended]))
        .view(0, kept[attended].shape());
  }
  return output_gate_forward(pass.runtime, kept[attended], kept[output_gate]);
}

ColumnLinears SelfAttention::backward_inside(const Pass& pass, Tensor d,
                                             std::span<Tensor> kept) const {
  if (traits_.has_output_gate) backward_gate(pass, d, kept);
  Qkv gradients = allocate_qkv(pass.runtime, d);
  {
    const QkvHeads heads = heads_of(kept.subspan<q, 3>());
    backward_attend(pass, attention_shape(pass, gradients[0]), heads,
                    {{kept[attended], kept[log_sum_exp]}, kept[exchanged_qkv], kept[exchanged_y]},
                    d, heads_of(gradients), sinks(pass));
  }
  d = {};
  for (const Kept used : {q, k, v, attended, log_sum_exp, exchanged_qkv, exchanged_y, scores}) {
    if (used <= k && keeps_queries_and_keys()) continue;
    if (used == v && keeps_values()) continue;
    kept[used] = {};
  }
  return backward_qkv(pass, std::move(gradients), kept);
}

void SelfAttention::backward_gate(const Pass& pass, Tensor& d, std::span<Tensor> kept) const {
  Tensor& gate = kept[output_gate];
  if (!traits_.gates_heads) {
    gate = output_gate_backward(pass.runtime, kept[attended], gate, d);
    return;
  }
  GatedRowsGradient gradient =
      gated_rows_backward(pass.runtime, gate, by_head(kept[attended]), by_head(d));
  gate = std::move(gradient.logits);
  d = gradient.x.view(0, d.shape());
}

// A row for each head of each token.
Tensor SelfAttention::by_head(const Tensor& y) const {
  return y.view(0, {num_rows(y) * heads_, value_size_});
}

void SelfAttention::attend_to_tokens(const Pass& pass, std::span<Tensor> kept) const {
  const AttentionShape shape = attention_shape(pass, kept[q]);
  Attended attention = attend(pass, shape, heads_of(kept.subspan<q, 3>()), sinks(pass));
  kept[attended] = std::move(attention.own.y);  // (b, s, a d)
  kept[log_sum_exp] = std::move(attention.own.log_sum_exp);
  kept[exchanged_qkv] = std::move(attention.exchanged_qkv);
  kept[exchanged_y] = std::move(attention.exchanged_y);
  kept[scores] = keep_scores(pass, shape);
}

AttentionShape SelfAttention::attention_shape(const Pass& pass, const Tensor& queries) const {
  return {.batch = queries.shape()[0],
          .seq_len = queries.shape()[1] * pass.part.parts,
          .num_heads = heads_,
          .num_groups = groups_,
          .head_size = head_size_,
          .value_size = value_size_,
          .mask = options_.layer(pass.block).mask,
          .scale = options_.attention_scale,
          .score_cap = options_.attention_logit_cap};
}

QkvHeads SelfAttention::heads_of(std::span<const Tensor, 3> qkv) const {
  const std::int64_t a = heads_ * head_size_;
  const std::int64_t g = groups_ * head_size_;
  if (!traits_.fuses_qkv) {
    return {{qkv[0], a, 0}, {qkv[1], g, 0}, {qkv[2], groups_ * value_size_, 0}};
  }
  const std::int64_t row = a + 2 * g;
  return {{qkv[0], row, 0}, {qkv[0], row, a}, {qkv[0], row, a + g}};
}

SelfAttention::Qkv SelfAttention::allocate_qkv(Runtime& runtime, const Tensor& d) const {
  const auto of_width = [&](std::int64_t width) {
    return new_activation(runtime, with_last(d.shape(), width), d.dtype());
  };
  if (traits_.fuses_qkv) return {of_width((heads_ + 2 * groups_) * head_size_)};
  return {of_width(heads_ * head_size_), of_width(groups_ * head_size_),
          of_width(groups_ * value_size_)};
}

Tensor SelfAttention::keep_scores(const Pass& pass, const AttentionShape& shape) const {
  const double queries = static_cast<double>(shape.seq_len) / pass.part.parts;
  const double count =
      queries * static_cast<double>(checked_product({shape.batch, shape.num_heads, shape.seq_len}));
  return pass.runtime.occupy(MemoryCategory::activations, count * options_.memory.score_bytes);
}

std::int64_t SelfAttention::forward_flops_per_sample(int block) const {
  const AttentionMask& mask = options_.layer(block).mask;
  const std::int64_t pairs = attention_work(options_.seq_len, {}, {}, mask).twice_pairs;
  return checked_product({pairs, options_.num_attention_heads, head_size_ + value_size_});
}

OffloadModule SelfAttention::reader_of(std::size_t kept) const {
  if (kept == num_inner()) return OffloadModule::attn_proj;  // Columns, which RegionBranch keeps.
  switch (kept) {
    case q:
    case k:
    case v:
    case exchanged_qkv:
      return OffloadModule::core_attn;
    case attended:
      return OffloadModule::attn_proj;
    default:
      return OffloadModule::everything;
  }
}

}  // namespace shardsim
