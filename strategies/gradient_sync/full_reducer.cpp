#include <vector>

#include "strategies/gradient_sync/gradient_reducer.hpp"

namespace shardsim {

namespace {

class FullReducer final : public GradientReducer {
 public:
  FullReducer(const SyncPlan& plan, Runtime& runtime, Mesh& mesh, const OwnedState& owned,
              bool sharded, const LateGroups& late)
      : plan_(plan),
        mesh_(mesh),
        owned_(owned),
        sharded_(sharded),
        late_(late),
        gradients_(plan, runtime) {}

  void begin_step() override { gradients_.zero(); }

  Tensor gradient(int parameter) override { return gradients_.of_parameter(parameter); }

  void reduce(int index) override {
    const FlatChunk& chunk = plan_.layout->chunk(index);
    const Tensor full = gradients_.of_chunk(index);
    ReplicaGroups groups = gradient_groups(plan_, mesh_);
    if (late_.shard != nullptr) groups.shard = late_.shard.get();
    if (late_.replicate != nullptr) groups.replicate = late_.replicate.get();
    if (late_.all != nullptr) groups.all = late_.all.get();
    if (sharded_) {
      pending_.push_back(post_shard_reduction(groups, mesh_.tp(), chunk, full, owned(index)));
    } else if (groups.all != nullptr) {
      pending_.push_back({.scatter = {},
                          .replicate = groups.all->all_reduce(full, ReduceOp::sum,
                                                              chunk.call_options(mesh_.tp()))});
    }
  }

  void finish() override {
    for (ShardReduction& reduction : pending_) reduction.wait();
    pending_.clear();
  }

  [[nodiscard]] Tensor owned(int chunk) const override {
    return owned_.part_of_full(gradients_.all(), chunk);
  }

 private:
  const SyncPlan& plan_;
  Mesh& mesh_;
  const OwnedState& owned_;
  bool sharded_;
  const LateGroups& late_;
  WholeGradients gradients_;
  std::vector<ShardReduction> pending_;
};

}  // namespace

std::unique_ptr<GradientReducer> make_full_reducer(const SyncPlan& plan, Runtime& runtime,
                                                   Mesh& mesh, const OwnedState& owned,
                                                   bool sharded, const LateGroups& late) {
  return std::make_unique<FullReducer>(plan, runtime, mesh, owned, sharded, late);
}

}  // namespace shardsim
