#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "sim/kernel/turns.hpp"

#include "backends/runtime.hpp"

#include "strategies/mesh.hpp"
#include "strategies/model/expert_counts.hpp"
#include "strategies/sharding/node_dispatch.hpp"
#include "strategies/sharding/tensor_parallel.hpp"

// Expert parallelism: ranks that see different tokens have some of a layer's experts each. Every
// token travels to the ranks of its experts and comes back (dispatch and combine), and so do the
// gradients: four all_to_alls of rows per layer and microbatch. Source: Lepikhin et al., "GShard"
// (2020).
//
// Expert tensor parallelism: some ranks have a slice each of the same experts. Rows that have come
// to one of them are gathered by all, and what their slices make of the rows is added on the way
// back to it. Source: Megatron-LM, token_dispatcher.py, MoEAlltoAllTokenDispatcher.
namespace shardsim {

/// One rank's end: of its expert-parallel group, and of all groups whose tokens share experts. A
/// model with experts has one on every rank, also where each rank has all experts.
class ExpertParallel {
 public:
  /// State of a layer's forward that backward needs besides tensors.
  struct Routed {
    std::shared_ptr<const ExpertCounts> counts;
    Tensor loads;          ///< Held while it is summed, also where recomputation drops the layer's.
    Work balance;          ///< The sum, on its way.
    Work balance_over_tp;  ///< Follows it.
  };

  /// `mesh` must outlive it. `token_shards`: whether tensor-parallel ranks have different tokens.
  ExpertParallel(Mesh& mesh, bool token_shards);

  /// Ranks that share the experts of a layer, and those that have slices of the same experts.
  [[nodiscard]] int size() const { return group_.size; }
  [[nodiscard]] int slices() const { return group_.slices; }
  [[nodiscard]] Communicator* slice_group() const { return mesh_.etp_group(); }
  [[nodiscard]] const ExpertGroup& group() const { return group_; }

  /// Works of this rank that take turns pass them where they would wait for rows.
  [[nodiscard]] Turns& turns() { return turns_; }
  [[nodiscard]] Tensor take_rows(PendingTensor rows) {
    turns_.pass();
    return rows.take();
  }
  /// Null where tokens go once to each of their experts.
  [[nodiscard]] const NodeDispatch* by_node() const { return by_node_ ? &*by_node_ : nullptr; }

  /// Tells every member how many rows it will get from each: `counts` [E] int32 of this rank's, by
  /// expert, -> [E], by member and that one's experts here.
  [[nodiscard]] Tensor exchange_counts(Runtime& runtime, const Tensor& counts);
  /// Rows that ranks with slices of the same experts have received, by rank: [slices, E] of [E].
  /// REQUIRES: slices() > 1.
  [[nodiscard]] Tensor gather_counts(Runtime& runtime, const Tensor& received);

  /// Posts the exchange of rows: `rows` lie expert by expert, what arrives member by member. Back:
  /// the other way. REQUIRES: counts of all members fit together.
  [[nodiscard]] PendingTensor dispatch(Runtime& runtime, Tensor rows, const ExpertCounts& counts,
                                       const CallOptions& options);
  [[nodiscard]] PendingTensor combine(Runtime& runtime, Tensor rows, const ExpertCounts& counts,
                                      const CallOptions& options);

  /// Rows of this rank -> those of all slices, one rank's after the other's. Back: sums over the
  /// slices of rows as they are then, for this rank's. With `are_equal` all have as many rows, and
  /// it is one collective; else one for each rank. REQUIRES: slices() > 1.
  [[nodiscard]] Tensor gather_slices(Runtime& runtime, const Tensor& rows,
                                     const ExpertCounts& counts, bool are_equal,
                                     const CallOptions& options);
  [[nodiscard]] Tensor reduce_slices(Runtime& runtime, const Tensor& rows,
                                     const ExpertCounts& counts, bool are_equal,
                                     const CallOptions& options);

  /// Posts the sum of `loads` over all ranks that see other tokens of the same samples' groups.
  void sum_loads(const Tensor& loads, Routed& routed);

  /// From a layer's forward to its backward. `sample`: first of the microbatch, `block`: of the
  /// model. Kept once more (recomputation), it replaces what was kept before.
  void keep(std::int64_t sample, int block, Routed routed);
  /// Waits for the loads. REQUIRES: kept.
  [[nodiscard]] Routed take(std::int64_t sample, int block);

 private:
  using Counts = std::vector<std::int64_t>;
  // Sends rows to and gets rows from each member, as many of each expert as the counts say.
  [[nodiscard]] PendingTensor exchange(Runtime& runtime, MemoryCategory category, Tensor rows,
                                       const Counts& sent, const Counts& received,
                                       const CallOptions& options,
                                       CallSite site = CallSite::here());
  static void wait(Routed& routed);

  Mesh& mesh_;
  ExpertGroup group_;
  Turns turns_;
  std::optional<NodeDispatch> by_node_;
  bool token_shards_;
  std::map<std::pair<std::int64_t, int>, Routed> kept_;
};

}  // namespace shardsim
