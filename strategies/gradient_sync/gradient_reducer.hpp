#pragma once

#include <memory>

#include "strategies/gradient_sync/owned_state.hpp"

// Where gradients are kept while backward fills them, and how they are summed over ranks.
namespace shardsim {

class GradientReducer {
 public:
  virtual ~GradientReducer() = default;
  /// All gradients are zero again.
  virtual void begin_step() = 0;
  /// Where backward adds the gradient of `parameter`.
  virtual Tensor gradient(int parameter) = 0;
  /// This rank's gradients of `chunk` are complete: posts their sum over the ranks; may wait to
  /// keep a bound on memory. All ranks must reduce chunks in the same order.
  virtual void reduce(int chunk) = 0;
  /// Returns when all sums are there.
  virtual void finish() = 0;
  /// The summed gradient of the part of `chunk` that this rank owns.
  [[nodiscard]] virtual Tensor owned(int chunk) const = 0;
};

/// Keeps all gradients whole in one buffer: DDP (all_reduce over all data-parallel ranks), and
/// ZeRO-1 (reduce_scatter in place, then all_reduce of the shard over the replicas).
[[nodiscard]] std::unique_ptr<GradientReducer> make_full_reducer(const SyncPlan& plan,
                                                                 Runtime& runtime, Mesh& mesh,
                                                                 const OwnedState& owned,
                                                                 bool sharded);

/// Keeps this rank's shard of the summed gradients, and whole chunks only while backward fills them
/// or their reduction is under way: ZeRO-2 and FSDP. Peak gradient bytes are at most
/// padded / N + (1 + reductions_in_flight) x the largest chunk, unless more chunks than that are
/// being filled at once; a chunk beyond waits for the oldest reduction to free its buffer.
[[nodiscard]] std::unique_ptr<GradientReducer> make_shard_reducer(const SyncPlan& plan,
                                                                  Runtime& runtime, Mesh& mesh,
                                                                  const OwnedState& owned);

}  // namespace shardsim
