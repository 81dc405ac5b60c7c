#pragma once

#include <memory>

#include "backends/communicator.hpp"
#include "backends/runtime.hpp"

#include "strategies/model/attention.hpp"
#include "strategies/model/attention_sinks.hpp"
#include "strategies/model/context_attention.hpp"
#include "strategies/model/sequence_part.hpp"

// Context parallelism: c ranks share the positions of the same samples. All layers but attention
// treat tokens one by one; there, queries meet the keys and values of other ranks, in the form that
// a row of context_table.cpp describes. Per layer and microbatch a rank sends, with h and h_kv
// elements of its query heads and of its key heads per token, in elements (where values have a size
// of their own, 2 h is queries and output, and 2 h_kv keys and values):
//
//                          forward                              backward
//   ring, all_gather       2 b s h_kv (c-1)/c                   4 b s h_kv (c-1)/c
//   ulysses                (2 h + 2 h_kv) (b s / c) (c-1)/c     the same
//   two_level, u in c      2 b s h_kv (c/u-1)/c, and            4 b s h_kv (c/u-1)/c, and
//                          (2 h + 2 h_kv) (b s / c) (u-1)/u     the same
//
// Shares are those of SequencePart, so that under a causal mask every rank has the same work, in
// every step of a ring, too. Statistics and sums over blocks are kept in statistics_dtype; messages
// have the activations' dtype. Weights are whole on every rank: their gradients are summed over the
// group as over data-parallel ranks.
//
// Rules of use: all ranks of the group call the same in the same order.
// Sources: see ContextAttention.
namespace shardsim {

/// One rank's end of a context-parallel group.
class ContextParallel {
 public:
  /// `group` must outlive it. All its ranks must construct theirs at the same point of the program:
  /// two levels are made by collective splits, `ulysses_degree` neighbours each. REQUIRES: that
  /// divides the group's size.
  ContextParallel(Communicator& group, ContextAttention form, int ulysses_degree);
  /// The same with a row of the caller's, which must outlive it: ranks with the same heads attend
  /// as it says.
  ContextParallel(Communicator& group, const ContextAttentionRow& row, int ulysses_degree);

  /// Which positions this rank has.
  [[nodiscard]] SequencePart part() const { return {group_.rank(), group_.size()}; }
  [[nodiscard]] Communicator& group() const { return group_; }

  /// As attend() and backward_attend().
  [[nodiscard]] Attended forward(Runtime& runtime, const AttentionShape& whole, const QkvHeads& qkv,
                                 const Sinks& sinks = {}) const;
  void backward(Runtime& runtime, const AttentionShape& whole, const QkvHeads& qkv,
                const Attended& forward, const Tensor& dy, const QkvHeads& gradients,
                const SinkSlopes& sinks = {}) const;

 private:
  // Those of the heads that this rank attends with.
  [[nodiscard]] Sinks sinks_here(Sinks sinks, const AttentionShape& here) const;
  // Attention of whole samples, as the ranks that share its heads see it.
  [[nodiscard]] AttentionShape shape_here(AttentionShape whole) const;
  [[nodiscard]] bool exchanges_heads() const { return ulysses_ != nullptr; }

  Communicator& group_;
  const ContextAttentionRow& row_;
  // Ranks that exchange heads, and ranks that have the same heads. Those of two levels are this
  // rank's; with one level one is the group and the other null.
  std::unique_ptr<Communicator> own_ulysses_;
  std::unique_ptr<Communicator> own_same_heads_;
  Communicator* ulysses_ = nullptr;
  Communicator* same_heads_ = nullptr;
};

}  // namespace shardsim
