#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "strategies/gradient_sync/owned_state.hpp"

// Buffers for gradients while backward fills them, and sums of gradients over ranks.
namespace shardsim {

/// The part that this rank has not sent yet of elements [begin, begin + values.numel()) of a chunk.
/// `name` lives as long as the reducer.
struct Residual {
  std::string_view name;
  std::int64_t begin;
  Tensor values;
};

class GradientReducer {
 public:
  virtual ~GradientReducer() = default;
  /// All gradients are zero again.
  virtual void begin_step() = 0;
  /// The tensor to which backward adds the gradient of `parameter`.
  virtual Tensor gradient(int parameter) = 0;
  /// Whether gradient() only looks it up for now.
  [[nodiscard]] virtual bool is_settled(int /*parameter*/) const { return false; }
  /// This rank's gradients of `chunk` are complete: posts their sum over the ranks; may wait to
  /// keep a bound on memory. All ranks must reduce chunks in the same order.
  virtual void reduce(int chunk) = 0;
  /// Returns when all sums are there.
  virtual void finish() = 0;
  /// The summed gradient of the part of `chunk` that this rank owns.
  [[nodiscard]] virtual Tensor owned(int chunk) const = 0;
  /// See GradientSync.
  [[nodiscard]] virtual bool has_gradients() const { return true; }
  virtual void drain() {}
  /// Empty where nothing is held back.
  [[nodiscard]] virtual std::vector<Residual> residuals(int /*chunk*/) const { return {}; }
};

/// Communicators for reductions that are waited for late, in place of the mesh's of the same
/// members: else all that is waited for in its own step would queue behind them.
struct LateGroups {
  std::unique_ptr<Communicator> shard;
  std::unique_ptr<Communicator> replicate;
  std::unique_ptr<Communicator> all;
};

/// Keeps all gradients whole in one buffer: DDP (all_reduce over all data-parallel ranks), and
/// ZeRO-1 (reduce_scatter in place, then all_reduce of the shard over the replicas). `late`: what
/// is reduced over in place of the mesh's groups, where it is not null.
[[nodiscard]] std::unique_ptr<GradientReducer> make_full_reducer(
    const SyncPlan& plan, Runtime& runtime, Mesh& mesh, const OwnedState& owned, bool sharded,
    std::shared_ptr<const LateGroups> late);

/// Keeps this rank's shard of the summed gradients, and whole chunks only while backward fills them
/// or their reduction is under way: ZeRO-2 and FSDP. Peak gradient bytes are at most
/// padded / N + (1 + reductions_in_flight) x the largest chunk, unless more chunks than that are
/// being filled at once; a chunk beyond waits for the oldest reduction to free its buffer.
[[nodiscard]] std::unique_ptr<GradientReducer> make_shard_reducer(const SyncPlan& plan,
                                                                  Runtime& runtime, Mesh& mesh,
                                                                  const OwnedState& owned);

/// Whole gradients like DDP's. Ranks send each other a compressed form (SyncPlan's), and its error
/// later. Its buckets are not padded. For a bucket each of D ranks sends (D - 1) parcels where they
/// go to all. Else it sends, as in an all_reduce without padding, the others' parts and all parts
/// but the next rank's: on average 2 (D - 1) / D of a parcel. REQUIRES: plan.compression.acts().
[[nodiscard]] std::unique_ptr<GradientReducer> make_compressed_reducer(const SyncPlan& plan,
                                                                       Runtime& runtime,
                                                                       Mesh& mesh);

/// Reductions of a step that are waited for ring.size() - 1 steps later: the gradients that it then
/// has are as many updates old. `ring`: equal reducers, one at least, each with buffers of its own.
[[nodiscard]] std::unique_ptr<GradientReducer> make_stale_reducer(
    std::vector<std::unique_ptr<GradientReducer>> ring);

// Parts that several reducers have.

/// The groups over which gradients of a plan are summed: where replicas train apart, those of one
/// replica. To be asked anew for each use: a mesh may change under a training (elastic).
[[nodiscard]] inline ReplicaGroups gradient_groups(const SyncPlan& plan, const Mesh& mesh) {
  ReplicaGroups groups = mesh.replicas(plan.kind);
  if (plan.local.acts()) {
    groups.replicate = nullptr;
    groups.all = groups.shard;
  }
  return groups;
}

/// Keeps the gradients of all chunks whole in one buffer, padding included.
class WholeReducer : public GradientReducer {
 public:
  void begin_step() override { runtime_.zero("zero_gradients", gradients_); }
  Tensor gradient(int parameter) override {
    const FlatPlace& place = plan_.layout->place(parameter);
    return gradients_.view(plan_.layout->chunk(place.chunk).offset + place.offset,
                           plan_.layout->shape(parameter));
  }
  [[nodiscard]] Tensor owned(int chunk) const override { return whole(chunk); }

 protected:
  WholeReducer(const SyncPlan& plan, Runtime& runtime, Mesh& mesh)
      : plan_(plan),
        runtime_(runtime),
        mesh_(mesh),
        gradients_(runtime.allocate(MemoryCategory::grads, {plan.layout->padded()},
                                    plan.gradient_dtype)) {}
  [[nodiscard]] Tensor whole(int index) const {
    const FlatChunk& chunk = plan_.layout->chunk(index);
    return gradients_.view(chunk.offset, {chunk.padded});
  }

  const SyncPlan& plan_;
  Runtime& runtime_;
  Mesh& mesh_;
  Tensor gradients_;
};

/// A reduction of one chunk over the shards and then over the replicas, which follows it on its own
/// stream.
struct ShardReduction {
  Work scatter;
  Work replicate;
  void wait();
};
/// `full` is the whole chunk; its own part is left in place. Posts nothing on an axis of one rank.
[[nodiscard]] ShardReduction post_shard_reduction(const ReplicaGroups& groups, int tp_rank,
                                                  const FlatChunk& chunk, const Tensor& full,
                                                  const Tensor& part);

}  // namespace shardsim
