#include "strategies/gradient_sync/gradient_reducer.hpp"

#include <utility>

namespace shardsim {

namespace {

class FullReducer final : public WholeReducer {
 public:
  FullReducer(const SyncPlan& plan, Runtime& runtime, Mesh& mesh, const OwnedState& owned,
              bool sharded, std::shared_ptr<const LateGroups> late)
      : WholeReducer(plan, runtime, mesh),
        owned_(owned),
        sharded_(sharded),
        late_(std::move(late)) {}

  void reduce(int index) override {
    const FlatChunk& chunk = plan_.layout->chunk(index);
    const Tensor full = whole(index);
    ReplicaGroups groups = gradient_groups(plan_, mesh_);
    if (late_ != nullptr && late_->shard != nullptr) groups.shard = late_->shard.get();
    if (late_ != nullptr && late_->replicate != nullptr) groups.replicate = late_->replicate.get();
    if (late_ != nullptr && late_->all != nullptr) groups.all = late_->all.get();
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
    return owned_.part_of_full(gradients_, chunk);
  }

 private:
  const OwnedState& owned_;
  bool sharded_;
  std::shared_ptr<const LateGroups> late_;
  std::vector<ShardReduction> pending_;
};

// A ring of reducers, one for each step whose gradients are on their way: the oldest is waited for
// when `staleness` further steps have computed theirs, and its buffer is then filled anew.
class StaleReducer final : public GradientReducer {
 public:
  StaleReducer(std::vector<std::unique_ptr<GradientReducer>> ring) : ring_(std::move(ring)) {}

  void begin_step() override {
    ++steps_;
    newest().begin_step();
  }
  Tensor gradient(int parameter) override { return newest().gradient(parameter); }
  void reduce(int chunk) override { newest().reduce(chunk); }
  void finish() override {
    if (has_gradients()) oldest().finish();
  }
  [[nodiscard]] Tensor owned(int chunk) const override { return oldest().owned(chunk); }
  [[nodiscard]] bool has_gradients() const override { return steps_ >= ring_.size(); }
  void drain() override {
    // In the order in which they were posted.
    for (std::size_t i = 0; i < ring_.size(); ++i) ring_[(steps_ + i) % ring_.size()]->finish();
  }

 private:
  [[nodiscard]] GradientReducer& newest() const { return *ring_[(steps_ - 1) % ring_.size()]; }
  [[nodiscard]] GradientReducer& oldest() const { return *ring_[steps_ % ring_.size()]; }

  std::vector<std::unique_ptr<GradientReducer>> ring_;
  std::size_t steps_ = 0;  // Begun so far.
};

}  // namespace

std::unique_ptr<GradientReducer> make_full_reducer(const SyncPlan& plan, Runtime& runtime,
                                                   Mesh& mesh, const OwnedState& owned,
                                                   bool sharded,
                                                   std::shared_ptr<const LateGroups> late) {
  return std::make_unique<FullReducer>(plan, runtime, mesh, owned, sharded, std::move(late));
}

std::unique_ptr<GradientReducer> make_stale_reducer(
    std::vector<std::unique_ptr<GradientReducer>> ring) {
  return std::make_unique<StaleReducer>(std::move(ring));
}

void ShardReduction::wait() {
  // In order of their ends; the second follows the first.
  scatter.wait();
  replicate.wait();
}

ShardReduction post_shard_reduction(const ReplicaGroups& groups, int tp_rank,
                                    const FlatChunk& chunk, const Tensor& full,
                                    const Tensor& part) {
  ShardReduction reduction;
  if (groups.shard != nullptr) {
    reduction.scatter =
        groups.shard->reduce_scatter(part, full, ReduceOp::sum, chunk.call_options(tp_rank));
  }
  if (groups.replicate != nullptr) {
    // A shard may be partly, or wholly, padding.
    const std::int64_t begin = groups.shard_rank * part.numel();
    CallOptions options{.label = chunk.label.c_str(),
                        .padding = chunk.padding(tp_rank, begin, begin + part.numel())};
    if (reduction.scatter.pending()) options.after = &reduction.scatter;
    reduction.replicate = groups.replicate->all_reduce(part, ReduceOp::sum, options);
  }
  return reduction;
}

}  // namespace shardsim
