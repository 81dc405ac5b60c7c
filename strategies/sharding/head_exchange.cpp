#include "strategies/sharding/context_forms.hpp"

// Tokens for heads: u ranks with all heads of some tokens each become ranks with some heads of all
// these tokens each, by an all_to_all, and back by another. q, k and v travel as one message.
// Source: Jacobs et al., "DeepSpeed Ulysses" (2023).
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

}  // namespace

Tensor HeadExchange::to_heads(const Heads& q, const Heads& k, const Heads& v) const {
  const Tensor packed = allocate(MemoryCategory::comm, q.tensor.dtype(), qkv_width());
  runtime_.compute(copy_op("pack_heads", packed), [&] {
    for (int peer = 0; peer < group_.size(); ++peer) {
      const std::int64_t to_row = peer * rows();
      const auto pack = [&](const Heads& from, const Heads& to, std::int64_t width) {
        copy_values({.from = part_of(from, peer, width),
                     .to = to,
                     .rows = rows(),
                     .width = width,
                     .to_row = to_row});
      };
      pack(q, q_of(packed), q_width_);
      pack(k, k_of(packed), k_width_);
      pack(v, v_of(packed), k_width_);
    }
  });
  Tensor qkv = allocate_qkv(q.tensor.dtype());
  group_.all_to_all(qkv, packed, {}, {}, {.label = "queries, keys and values"}).wait();
  return qkv;
}

Tensor HeadExchange::to_tokens(const Tensor& y) const {
  const Tensor received = allocate(MemoryCategory::comm, y.dtype(), q_width_);
  group_.all_to_all(received, y, {}, {}, {.label = "attention output"}).wait();
  const std::int64_t width = group_.size() * q_width_;
  Tensor tokens =
      runtime_.allocate(MemoryCategory::activations, {batch_, share_, width}, y.dtype());
  const Heads all{tokens, width, 0};
  runtime_.compute(copy_op("unpack_heads", received), [&] {
    for (int peer = 0; peer < group_.size(); ++peer) {
      copy_values({.from = {received, q_width_, 0},
                   .to = part_of(all, peer, q_width_),
                   .rows = rows(),
                   .width = q_width_,
                   .from_row = peer * rows()});
    }
  });
  return tokens;
}

Tensor HeadExchange::gradient_to_heads(const Tensor& dy) const {
  const Tensor packed = allocate(MemoryCategory::comm, dy.dtype(), q_width_);
  const Heads all{dy, last_dim(dy), 0};
  runtime_.compute(copy_op("pack_heads", packed), [&] {
    for (int peer = 0; peer < group_.size(); ++peer) {
      copy_values({.from = part_of(all, peer, q_width_),
                   .to = {packed, q_width_, 0},
                   .rows = rows(),
                   .width = q_width_,
                   .to_row = peer * rows()});
    }
  });
  Tensor received = allocate(MemoryCategory::activations, dy.dtype(), q_width_);
  group_.all_to_all(received, packed, {}, {}, {.label = "attention output gradient"}).wait();
  return received;
}

void HeadExchange::gradients_to_tokens(const Tensor& d_qkv, const Heads& dq, const Heads& dk,
                                       const Heads& dv) const {
  const Tensor received = allocate(MemoryCategory::comm, d_qkv.dtype(), qkv_width());
  group_.all_to_all(received, d_qkv, {}, {}, {.label = "query, key and value gradients"}).wait();
  runtime_.compute(copy_op("unpack_heads", received), [&] {
    for (int peer = 0; peer < group_.size(); ++peer) {
      const auto unpack = [&](const Heads& from, const Heads& to, std::int64_t width) {
        copy_values({.from = from,
                     .to = part_of(to, peer, width),
                     .rows = rows(),
                     .width = width,
                     .from_row = peer * rows()});
      };
      unpack(q_of(received), dq, q_width_);
      unpack(k_of(received), dk, k_width_);
      unpack(v_of(received), dv, k_width_);
    }
  });
}

Tensor HeadExchange::allocate(MemoryCategory category, DType dtype, std::int64_t width) const {
  return runtime_.allocate(category, {group_.size() * batch_, share_, width}, dtype);
}

}  // namespace shardsim
