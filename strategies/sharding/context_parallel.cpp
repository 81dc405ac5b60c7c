#include "strategies/sharding/context_parallel.hpp"

#include <utility>

#include "strategies/mesh_groups.hpp"
#include "strategies/named_groups.hpp"
#include "strategies/sharding/context_forms.hpp"

namespace shardsim {

namespace {

// A copy that packs or unpacks: it reads and writes each element once.
ComputeOp copy_op(const char* name, const Tensor& tensor) {
  return memory_op(name, tensor.dtype(), 2 * tensor.num_bytes());
}

// The part `number` of heads that are cut into parts of `width` elements.
Heads part_of(const Heads& heads, int number, std::int64_t width) {
  return {heads.tensor, heads.row_stride, heads.first + number * width};
}

// Tokens for heads: u ranks with all heads of some tokens each become ranks with some heads of all
// these tokens each, by an all_to_all, and back by another. q, k and v travel as one message.
// Source: Jacobs et al., "DeepSpeed Ulysses" (2023).
class HeadExchange {
 public:
  /// `shape`: after the exchange. Its queries and keys are the shares of all ranks of `group`, in
  /// their order. All must outlive it.
  HeadExchange(Runtime& runtime, Communicator& group, const AttentionShape& shape)
      : runtime_(runtime),
        group_(group),
        q_width_(shape.q_row()),
        k_width_(shape.k_row()),
        v_width_(shape.v_row()),
        y_width_(shape.y_row()),
        batch_(shape.batch),
        share_(shape.seq_len / shape.queries.parts) {}

  /// This rank's tokens, all heads -> rows [u, b, s of a share, q k v], all tokens, its heads.
  [[nodiscard]] Tensor to_heads(const QkvHeads& own) const {
    const DType dtype = own.q.tensor.dtype();
    const Tensor packed = allocate(MemoryCategory::comm, dtype, qkv_width());
    runtime_.compute(copy_op("pack_heads", packed), [&] {
      const QkvHeads to = heads_of(packed);
      pack(own.q, to.q, q_width_);
      pack(own.k, to.k, k_width_);
      pack(own.v, to.v, v_width_);
    });
    Tensor qkv = allocate_qkv(dtype);
    exchange(qkv, packed, "queries, keys and values");
    return qkv;
  }
  /// y [u b, s, a d_v] of all tokens and its heads -> [b, s, u a d_v] of its tokens and all heads.
  [[nodiscard]] Tensor to_tokens(const Tensor& y) const {
    const Tensor received = allocate(MemoryCategory::comm, y.dtype(), y_width_);
    exchange(received, y, "attention output");
    const std::int64_t width = group_.size() * y_width_;
    Tensor tokens = new_activation(runtime_, {batch_, share_, width}, y.dtype());
    runtime_.compute(copy_op("unpack_heads", received), [&] {
      unpack({received, y_width_, 0}, {tokens, width, 0}, y_width_);
    });
    return tokens;
  }

  /// The ways back: of to_tokens, and of to_heads.
  [[nodiscard]] Tensor gradient_to_heads(const Tensor& dy) const {
    const Tensor packed = allocate(MemoryCategory::comm, dy.dtype(), y_width_);
    runtime_.compute(copy_op("pack_heads", packed), [&] {
      pack({dy, last_dim(dy), 0}, {packed, y_width_, 0}, y_width_);
    });
    Tensor received = allocate(MemoryCategory::activations, dy.dtype(), y_width_);
    exchange(received, packed, "attention output gradient");
    return received;
  }
  void gradients_to_tokens(const Tensor& d_qkv, const QkvHeads& gradients) const {
    const Tensor received = allocate(MemoryCategory::comm, d_qkv.dtype(), qkv_width());
    exchange(received, d_qkv, "query, key and value gradients");
    runtime_.compute(copy_op("unpack_heads", received), [&] {
      const QkvHeads from = heads_of(received);
      unpack(from.q, gradients.q, q_width_);
      unpack(from.k, gradients.k, k_width_);
      unpack(from.v, gradients.v, v_width_);
    });
  }

  /// As to_heads returns, of zeros.
  [[nodiscard]] Tensor allocate_qkv(DType dtype) const {
    return allocate(MemoryCategory::activations, dtype, qkv_width());
  }
  [[nodiscard]] QkvHeads heads_of(const Tensor& qkv) const {
    return {{qkv, qkv_width(), 0},
            {qkv, qkv_width(), q_width_},
            {qkv, qkv_width(), q_width_ + k_width_}};
  }

 private:
  [[nodiscard]] std::int64_t qkv_width() const { return q_width_ + k_width_ + v_width_; }
  [[nodiscard]] std::int64_t rows() const { return batch_ * share_; }  // For a rank's tokens.
  // As many rows for each rank.
  [[nodiscard]] Tensor allocate(MemoryCategory category, DType dtype, std::int64_t width) const {
    return runtime_.allocate(category, {group_.size() * batch_, share_, width}, dtype);
  }
  void exchange(const Tensor& received, const Tensor& sent, const char* label,
                CallSite site = CallSite::here()) const {
    group_.all_to_all(received, sent, {}, {}, {.label = label}, site).wait();
  }

  // Each peer's heads, of this rank's tokens, to the rows of that peer, and back.
  void pack(const Heads& from, const Heads& to, std::int64_t width) const {
    for (int peer = 0; peer < group_.size(); ++peer) {
      copy_values({.from = part_of(from, peer, width),
                   .to = to,
                   .rows = rows(),
                   .width = width,
                   .to_row = peer * rows()});
    }
  }
  void unpack(const Heads& from, const Heads& to, std::int64_t width) const {
    for (int peer = 0; peer < group_.size(); ++peer) {
      copy_values({.from = from,
                   .to = part_of(to, peer, width),
                   .rows = rows(),
                   .width = width,
                   .from_row = peer * rows()});
    }
  }

  Runtime& runtime_;
  Communicator& group_;
  std::int64_t q_width_;  // Elements of a rank's heads after the exchange,
  std::int64_t k_width_;  // of queries, keys,
  std::int64_t v_width_;  // values,
  std::int64_t y_width_;  // and the output.
  std::int64_t batch_;
  std::int64_t share_;
};

}  // namespace

ContextParallel::ContextParallel(Communicator& group, ContextAttention form, int ulysses_degree)
    : ContextParallel(group, context_attention_row(form), ulysses_degree) {}

ContextParallel::ContextParallel(Communicator& group, const ContextAttentionRow& row,
                                 int ulysses_degree)
    : group_(group), row_(row) {
  const int c = group.size();
  const int u = ulysses_size(row.form, c, ulysses_degree);
  if (u == c) {
    ulysses_ = &group;
  } else if (u == 1) {
    same_heads_ = &group;
  } else {
    const RankSpan whole = RankSpan::line(c);
    own_ulysses_ =
        group.subgroup(ulysses_part(whole, group.rank(), u), named_group::kCpUlysses.name);
    own_same_heads_ = group.subgroup(ring_part(whole, group.rank(), u), named_group::kCpRing.name);
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

Sinks ContextParallel::sinks_here(Sinks sinks, const AttentionShape& here) const {
  if (exchanges_heads()) sinks.first += ulysses_->rank() * here.num_heads;
  return sinks;
}

Attended ContextParallel::forward(Runtime& runtime, const AttentionShape& whole,
                                  const QkvHeads& qkv, const Sinks& sinks) const {
  const AttentionShape shape = shape_here(whole);
  const auto attention = [&](const QkvHeads& heads) {
    AttentionOutput out = same_heads_ != nullptr ? row_.forward(runtime, *same_heads_, shape, heads)
                                                 : attention_forward(runtime, shape, heads);
    add_sinks(runtime, shape, sinks_here(sinks, shape), out);
    return out;
  };
  Attended result;
  if (!exchanges_heads()) {
    result.own = attention(qkv);
    return result;
  }
  const HeadExchange exchange(runtime, *ulysses_, shape);
  result.exchanged_qkv = exchange.to_heads(qkv);
  AttentionOutput out = attention(exchange.heads_of(result.exchanged_qkv));
  result.own.y = exchange.to_tokens(out.y);
  result.own.log_sum_exp = std::move(out.log_sum_exp);
  result.exchanged_y = std::move(out.y);
  return result;
}

void ContextParallel::backward(Runtime& runtime, const AttentionShape& whole, const QkvHeads& qkv,
                               const Attended& forward, const Tensor& dy, const QkvHeads& gradients,
                               const SinkSlopes& sinks) const {
  const AttentionShape shape = shape_here(whole);
  const SinkSlopes here{sinks_here(sinks.sinks, shape), sinks.gradient};
  if (!exchanges_heads()) {
    sinks_backward(runtime, shape, here, forward.own, dy);
    return row_.backward(runtime, *same_heads_, shape, qkv, forward.own, dy, gradients);
  }
  const HeadExchange exchange(runtime, *ulysses_, shape);
  const AttentionOutput out{forward.exchanged_y, forward.own.log_sum_exp};
  const Tensor d_y = exchange.gradient_to_heads(dy);
  sinks_backward(runtime, shape, here, out, d_y);
  const Tensor d_qkv = exchange.allocate_qkv(dy.dtype());
  {
    const QkvHeads heads = exchange.heads_of(forward.exchanged_qkv);
    const QkvHeads slopes = exchange.heads_of(d_qkv);
    if (same_heads_ != nullptr) {
      row_.backward(runtime, *same_heads_, shape, heads, out, d_y, slopes);
    } else {
      attention_backward(runtime, shape, heads, out, d_y, slopes);
    }
  }
  exchange.gradients_to_tokens(d_qkv, gradients);
}

}  // namespace shardsim
