#include "strategies/sharding/context_parallel.hpp"

#include <utility>

#include "strategies/named_groups.hpp"
#include "strategies/sharding/context_forms.hpp"

namespace shardsim {

ContextParallel::ContextParallel(Communicator& group, ContextAttention form, int ulysses_degree)
    : group_(group), row_(context_attention_row(form)) {
  const int c = group.size();
  const int u = ulysses_size(form, c, ulysses_degree);
  if (u == c) {
    ulysses_ = &group;
  } else if (u == 1) {
    same_heads_ = &group;
  } else {
    own_ulysses_ = group.split(group.rank() / u, group.rank() % u, named_group::kCpUlysses.name);
    own_same_heads_ = group.split(group.rank() % u, group.rank() / u, named_group::kCpRing.name);
    ulysses_ = own_ulysses_.get();
    same_heads_ = own_same_heads_.get();
  }
}

AttentionShape ContextParallel::shape_here(AttentionShape whole) const {
  const int together = exchanges_heads() ? ulysses_->size() : 1;
  whole.num_heads /= together;
  whole.num_groups /= together;
  // Neighbours exchange heads, so that their tokens are neighbouring shares.
  const SequenceShares own{group_.rank() / together * together, together, group_.size()};
  whole.queries = own;
  whole.keys = own;
  return whole;
}

Attended ContextParallel::forward(Runtime& runtime, const AttentionShape& whole, const Heads& q,
                                  const Heads& k, const Heads& v) const {
  const AttentionShape shape = shape_here(whole);
  const auto attention = [&](const Heads& queries, const Heads& keys, const Heads& values) {
    if (same_heads_ != nullptr) {
      return row_.forward(runtime, *same_heads_, shape, queries, keys, values);
    }
    return attention_forward(runtime, shape, queries, keys, values);
  };
  Attended result;
  if (!exchanges_heads()) {
    result.own = attention(q, k, v);
    return result;
  }
  const HeadExchange exchange(runtime, *ulysses_, shape);
  result.exchanged_qkv = exchange.to_heads(q, k, v);
  AttentionOutput out =
      attention(exchange.q_of(result.exchanged_qkv), exchange.k_of(result.exchanged_qkv),
                exchange.v_of(result.exchanged_qkv));
  result.own.y = exchange.to_tokens(out.y);
  result.own.log_sum_exp = std::move(out.log_sum_exp);
  result.exchanged_y = std::move(out.y);
  return result;
}

void ContextParallel::backward(Runtime& runtime, const AttentionShape& whole, const Heads& q,
                               const Heads& k, const Heads& v, const Attended& forward,
                               const Tensor& dy, const Heads& dq, const Heads& dk,
                               const Heads& dv) const {
  const AttentionShape shape = shape_here(whole);
  if (!exchanges_heads()) {
    return row_.backward(runtime, *same_heads_, shape, q, k, v, forward.own, dy, dq, dk, dv);
  }
  const HeadExchange exchange(runtime, *ulysses_, shape);
  const Tensor& qkv = forward.exchanged_qkv;
  const AttentionOutput out{forward.exchanged_y, forward.own.log_sum_exp};
  const Tensor d_y = exchange.gradient_to_heads(dy);
  const Tensor d_qkv = exchange.allocate_qkv(dy.dtype());
  if (same_heads_ != nullptr) {
    row_.backward(runtime, *same_heads_, shape, exchange.q_of(qkv), exchange.k_of(qkv),
                  exchange.v_of(qkv), out, d_y, exchange.q_of(d_qkv), exchange.k_of(d_qkv),
                  exchange.v_of(d_qkv));
  } else {
    attention_backward(runtime, shape, exchange.q_of(qkv), exchange.k_of(qkv), exchange.v_of(qkv),
                       out, d_y, exchange.q_of(d_qkv), exchange.k_of(d_qkv), exchange.v_of(d_qkv));
  }
  exchange.gradients_to_tokens(d_qkv, dq, dk, dv);
}

}  // namespace shardsim
