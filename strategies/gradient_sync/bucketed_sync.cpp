#include <utility>
#include <vector>

#include "strategies/gradient_sync/owning_sync.hpp"

namespace shardsim {

namespace {

class BucketedSync final : public OwningSync {
 public:
  BucketedSync(int zero_stage, const SyncPlan& plan, Runtime& runtime, Mesh& mesh)
      : OwningSync(plan, runtime, mesh, zero_stage > 0),
        missing_(plan.layout->chunks().size()),
        buckets_(to_size(plan.model->num_chunks())),
        reduces_every_microbatch_(zero_stage == 2 && plan.reduce_every_microbatch),
        reduces_within_backward_(zero_stage == 2 || plan.overlap_reduce) {
    weights_ = runtime.allocate(MemoryCategory::params, {plan.layout->padded()}, plan.weight_dtype);
    reducer_ = make_reducer(zero_stage);
    initialize();
    for (int bucket = 0; bucket < num_chunks(); ++bucket) {
      of_chunk(plan.layout->chunk(bucket).model_chunk).members.push_back(bucket);
    }
  }

  Tensor weight(int parameter) override {
    const FlatPlace& place = plan_.layout->place(parameter);
    return weights_.view(plan_.layout->chunk(place.chunk).offset + place.offset,
                         plan_.layout->shape(parameter));
  }

  void begin_step() override {
    for (Buckets& buckets : buckets_) buckets.reducing = false;
    reducer_->begin_step();
  }

  void begin_weight_gradients(int chunk, bool last) override {
    Buckets& buckets = of_chunk(chunk);
    if (buckets.reducing) reduce_rest(buckets);  // Left by the microbatch before.
    buckets.reducing = last || reduces_every_microbatch_;
    buckets.next = 0;
    for (const int bucket : buckets.members) {
      missing_[to_size(bucket)] = static_cast<int>(plan_.layout->chunk(bucket).parameters.size());
    }
  }

  void gradient_ready(int parameter) override {
    const int bucket = plan_.layout->place(parameter).chunk;
    Buckets& buckets = of_chunk(plan_.layout->chunk(bucket).model_chunk);
    if (!buckets.reducing || !reduces_within_backward_) return;
    --missing_[to_size(bucket)];
    // In the order of the buckets, whichever is ready first: the order must be that of all ranks.
    while (buckets.left() && missing_[to_size(buckets.front())] <= 0) {
      reducer_->reduce(buckets.take());
    }
  }

  [[nodiscard]] bool is_settled(int parameter) const override {
    const int chunk = plan_.layout->chunk(plan_.layout->place(parameter).chunk).model_chunk;
    const bool reduces = buckets_[to_size(chunk)].reducing && reduces_within_backward_;
    return !reduces && reducer_->is_settled(parameter);
  }

  // The last chunk's backward comes first.
  void finish_gradients() override {
    for (std::size_t chunk = buckets_.size(); chunk-- > 0;) reduce_rest(buckets_[chunk]);
    reducer_->finish();
  }

  // A bucket's gather runs while later buckets are updated, not into the next step's forward: a
  // step's time contains its own gathers.
  void apply_optimizer(double gradient_scale, std::int64_t step) override {
    std::vector<Work> gathers;
    for (int chunk = 0; chunk < num_chunks(); ++chunk) {
      const Tensor part = owned_.part_of_full(weights_, chunk);
      owned_.update(chunk, part, gradient_of(chunk).tensor(), gradient_scale, step);
      Communicator* const shards = mesh_.replicas(plan_.kind).shard;
      if (!sharded_ || shards == nullptr) continue;
      const FlatChunk& flat = plan_.layout->chunk(chunk);
      gathers.push_back(
          shards->all_gather(whole_weights(chunk), part, flat.call_options(mesh_.tp())));
      if (!plan_.overlap_gather) gathers.back().wait();
    }
    for (Work& gather : gathers) gather.wait();
  }

 private:
  // Buckets of one model chunk, in the order of their reduction.
  struct Buckets {
    std::vector<int> members;
    std::size_t next = 0;
    bool reducing = false;

    [[nodiscard]] bool left() const { return next < members.size(); }
    [[nodiscard]] int front() const { return members[next]; }
    int take() { return members[next++]; }
  };
  [[nodiscard]] Buckets& of_chunk(int chunk) { return buckets_[to_size(chunk)]; }

  [[nodiscard]] HeldWeights held_weights(int chunk) const override {
    return {0, whole_weights(chunk)};
  }

  // For each step under way its own, where gradients are applied late.
  [[nodiscard]] std::unique_ptr<GradientReducer> make_reducer(int zero_stage) {
    if (plan_.compression.acts()) return make_compressed_reducer(plan_, runtime_, mesh_);
    if (zero_stage == 2) return make_shard_reducer(plan_, runtime_, mesh_, owned_);
    const std::shared_ptr<const LateGroups> late =
        plan_.max_staleness > 0 ? make_late_groups() : nullptr;
    std::vector<std::unique_ptr<GradientReducer>> ring;
    for (int i = 0; i <= plan_.max_staleness; ++i) {
      ring.push_back(make_full_reducer(plan_, runtime_, mesh_, owned_, sharded_, late));
    }
    return ring.size() == 1 ? std::move(ring.front()) : make_stale_reducer(std::move(ring));
  }

  // Groups for late gradients: losses and gathers of weights are waited for in their own step.
  [[nodiscard]] std::shared_ptr<const LateGroups> make_late_groups() const {
    const ReplicaGroups groups = gradient_groups(plan_, mesh_);
    const auto copy = [](Communicator* group) {
      return group == nullptr ? nullptr
                              : group->subgroup(RankSpan::line(group->size()), group->name());
    };
    auto late = std::make_shared<LateGroups>();
    if (sharded_) {
      late->shard = copy(groups.shard);
      late->replicate = copy(groups.replicate);
    } else {
      late->all = copy(groups.all);
    }
    return late;
  }

  [[nodiscard]] Tensor whole_weights(int chunk) const {
    const FlatChunk& flat = plan_.layout->chunk(chunk);
    return weights_.view(flat.offset, {flat.padded});
  }
  // Without overlap all buckets; else those with parameters that backward never reported: their
  // gradient is zero on this rank.
  void reduce_rest(Buckets& buckets) {
    while (buckets.left()) reducer_->reduce(buckets.take());
  }

  std::vector<int> missing_;      // By bucket: gradients that this microbatch does not have yet.
  std::vector<Buckets> buckets_;  // By model chunk.
  bool reduces_every_microbatch_;
  // Stage 2 must even without overlap, where it waits at once: its memory holds few whole buckets.
  bool reduces_within_backward_;
};

}  // namespace

std::unique_ptr<GradientSync> make_bucketed_sync(int zero_stage, const SyncPlan& plan,
                                                 Runtime& runtime, Mesh& mesh) {
  return std::make_unique<BucketedSync>(zero_stage, plan, runtime, mesh);
}

}  // namespace shardsim
