#pragma once

#include <span>

#include "backends/communicator.hpp"

#include "strategies/model/attention.hpp"

// Private to strategies/sharding: the forms of attention over a context, and the messages that they
// are made of. Rows of context_table.cpp name them.
namespace shardsim {

// Copies of heads from one place to another. Messages are packed and unpacked by them.

/// Elements [first, first + width) of each of `rows` rows, and where they go: the same rows of
/// another tensor, from row `to_row` on.
struct HeadCopy {
  Heads from;
  Heads to;
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t from_row = 0;
  std::int64_t to_row = 0;
};

/// to = from, rounded to its dtype, or to += from. REQUIRES: data; part of an operation.
void copy_values(const HeadCopy& copy, bool adds = false);

/// All of them, as one operation, bound by the bytes it moves.
void copy_heads(Runtime& runtime, const char* name, std::span<const HeadCopy> copies,
                bool adds = false);

/// Keys and values of some positions as one message: rows of g heads of k and then of v,
/// [b, s, g (d + d_v)]. Their gradients have the same form.
class KeyBlocks {
 public:
  /// Blocks for positions shape.keys.
  KeyBlocks(Runtime& runtime, const AttentionShape& shape)
      : runtime_(runtime),
        k_width_(shape.k_row()),
        v_width_(shape.v_row()),
        rows_(shape.batch * shape.keys.length(shape.seq_len)) {}

  /// Zeros. `blocks` of them, one after the other.
  [[nodiscard]] Tensor allocate(DType dtype, std::int64_t blocks = 1) const {
    return runtime_.allocate(MemoryCategory::comm, {blocks, rows_, k_width_ + v_width_}, dtype);
  }
  [[nodiscard]] Heads k_of(const Tensor& block) const { return {block, k_width_ + v_width_, 0}; }
  [[nodiscard]] Heads v_of(const Tensor& block) const {
    return {block, k_width_ + v_width_, k_width_};
  }

  /// A new block, of k and v.
  [[nodiscard]] Tensor pack(const Heads& k, const Heads& v) const;
  /// k and v become the block's, or it is added to them.
  void unpack(const Tensor& block, const Heads& k, const Heads& v, bool adds) const;

 private:
  Runtime& runtime_;
  std::int64_t k_width_;  // Width of a row's keys,
  std::int64_t v_width_;  // and values.
  std::int64_t rows_;
};

// The forms, each in the file of its name, with its source.

/// `shape`: queries and keys are this rank's shares, number ring.rank() of as many as are cut
/// equally among ring.size() ranks.
[[nodiscard]] AttentionOutput ring_attention_forward(Runtime& runtime, Communicator& ring,
                                                     const AttentionShape& shape,
                                                     const QkvHeads& qkv);

/// As attention_backward.
void ring_attention_backward(Runtime& runtime, Communicator& ring, const AttentionShape& shape,
                             const QkvHeads& qkv, const AttentionOutput& forward, const Tensor& dy,
                             const QkvHeads& gradients);

/// `shape`: queries and keys are this rank's share, number group.rank() of group.size().
[[nodiscard]] AttentionOutput gathered_attention_forward(Runtime& runtime, Communicator& group,
                                                         const AttentionShape& shape,
                                                         const QkvHeads& qkv);

/// As attention_backward.
void gathered_attention_backward(Runtime& runtime, Communicator& group, const AttentionShape& shape,
                                 const QkvHeads& qkv, const AttentionOutput& forward,
                                 const Tensor& dy, const QkvHeads& gradients);

}  // namespace shardsim
