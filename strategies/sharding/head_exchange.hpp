#pragma once

#include "backends/communicator.hpp"

#include "strategies/model/attention.hpp"

// Tokens for heads: u ranks with all heads of some tokens each become ranks with some heads of all
// these tokens each, by an all_to_all, and back by another. q, k and v travel as one message.
// Source: Jacobs et al., "DeepSpeed Ulysses" (2023).
namespace shardsim {

class HeadExchange {
 public:
  /// `shape`: after the exchange. Its queries and keys are the shares of all ranks of `group`, in
  /// their order. All must outlive it.
  HeadExchange(Runtime& runtime, Communicator& group, const AttentionShape& shape)
      : runtime_(runtime),
        group_(group),
        q_width_(shape.num_heads * shape.head_size),
        k_width_(shape.num_groups * shape.head_size),
        batch_(shape.batch),
        share_(shape.seq_len / shape.queries.parts) {}

  /// This rank's tokens, all heads -> rows [u, b, s of a share, q k v], all tokens, its heads.
  [[nodiscard]] Tensor to_heads(const Heads& q, const Heads& k, const Heads& v) const;
  /// y [u b, s, a d] of all tokens and its heads -> [b, s, u a d] of its tokens and all heads.
  [[nodiscard]] Tensor to_tokens(const Tensor& y) const;

  /// The ways back: of to_tokens, and of to_heads.
  [[nodiscard]] Tensor gradient_to_heads(const Tensor& dy) const;
  void gradients_to_tokens(const Tensor& d_qkv, const Heads& dq, const Heads& dk,
                           const Heads& dv) const;

  /// As to_heads returns, of zeros.
  [[nodiscard]] Tensor allocate_qkv(DType dtype) const {
    return allocate(MemoryCategory::activations, dtype, qkv_width());
  }
  [[nodiscard]] Heads q_of(const Tensor& qkv) const { return {qkv, qkv_width(), 0}; }
  [[nodiscard]] Heads k_of(const Tensor& qkv) const { return {qkv, qkv_width(), q_width_}; }
  [[nodiscard]] Heads v_of(const Tensor& qkv) const {
    return {qkv, qkv_width(), q_width_ + k_width_};
  }

 private:
  [[nodiscard]] std::int64_t qkv_width() const { return q_width_ + 2 * k_width_; }
  [[nodiscard]] std::int64_t rows() const { return batch_ * share_; }  // For a rank's tokens.
  // As many rows for each rank.
  [[nodiscard]] Tensor allocate(MemoryCategory category, DType dtype, std::int64_t width) const;

  Runtime& runtime_;
  Communicator& group_;
  std::int64_t q_width_;  // Elements of a rank's heads after the exchange,
  std::int64_t k_width_;  // of queries, and of keys.
  std::int64_t batch_;
  std::int64_t share_;
};

}  // namespace shardsim
