#include <optional>
#include <utility>
#include <vector>

#include "strategies/gradient_sync/narrow_weights.hpp"
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
    allocate_weights();
    reducer_ = make_reducer(zero_stage);
    initialize();
    for (int bucket = 0; bucket < num_chunks(); ++bucket) {
      of_chunk(plan.layout->chunk(bucket).model_chunk).members.push_back(bucket);
    }
  }

  Tensor weight(int parameter) override {
    const FlatPlace& place = plan_.layout->place(parameter);
    if (narrow_) return shape_of_narrow(weights_, plan_, parameter);
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
    Communicator* const shards = sharded_ ? mesh_.replicas(plan_.kind).shard : nullptr;
    const auto post_gather = [&](int chunk) {
      if (shards == nullptr) return;
      gathers.push_back(
          shards->all_gather(whole_weights(chunk), owned_weights(chunk), gather_options(chunk)));
      if (!plan_.overlap_gather) gathers.back().wait();
    };
    const bool agrees = narrow_ && narrow_->has_common_scales();
    for (int chunk = 0; chunk < num_chunks(); ++chunk) {
      owned_.update(chunk, owned_weights(chunk), gradient_of(chunk).tensor(), gradient_scale, step,
                    !agrees);
      if (!agrees) post_gather(chunk);
    }
    if (agrees) narrow_->agree_on_scales(runtime_, shards);
    for (int chunk = 0; agrees && chunk < num_chunks(); ++chunk) {
      owned_.cast(chunk, owned_weights(chunk));
      post_gather(chunk);
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

  void allocate_weights() {
    if (plan_.narrow_weights) {
      narrow_.emplace(plan_, runtime_, mesh_.replicas(plan_.kind).num_shards, false);
    }
    if (narrow_ && narrow_->has_common_scales()) {
      weights_ = runtime_.allocate(MemoryCategory::params, {narrow_->kept()}, DType::fp8_e4m3);
      return;
    }
    const Shape shape{plan_.layout->padded()};
    if (!narrow_) {
      weights_ = runtime_.allocate(MemoryCategory::params, shape, plan_.weight_dtype);
      return;
    }
    // Gathered in 16 bits into the memory of gradients; weights that are not narrow have their own.
    narrow_.reset();
    weights_ = Tensor::allocate(nullptr, MemoryCategory::params, shape, plan_.weight_dtype, true);
    wide_ =
        runtime_.occupy(MemoryCategory::params,
                        static_cast<double>(wide_elements(plan_) * size_of(plan_.weight_dtype)));
  }
  // A chunk's weights, those that this rank updates, and how they are gathered.
  [[nodiscard]] Tensor whole_weights(int chunk) const {
    if (narrow_) return weights_.view(narrow_->first(chunk), {narrow_->sent(chunk)});
    const FlatChunk& flat = plan_.layout->chunk(chunk);
    return weights_.view(flat.offset, {flat.padded});
  }
  [[nodiscard]] Tensor owned_weights(int chunk) const {
    if (!narrow_) return owned_.part_of_full(weights_, chunk);
    return owned_.part_of_bytes(whole_weights(chunk));
  }
  [[nodiscard]] CallOptions gather_options(int chunk) const {
    return narrow_ ? narrow_->call_options(chunk)
                   : plan_.layout->chunk(chunk).call_options(mesh_.tp());
  }
  // Without overlap all buckets; else those with parameters that backward never reported: their
  // gradient is zero on this rank.
  void reduce_rest(Buckets& buckets) {
    while (buckets.left()) reducer_->reduce(buckets.take());
  }

  std::optional<NarrowWeights> narrow_;  // Weights are codes, and mixed with others.
  Tensor wide_;                   // Memory of the others, where the codes are kept elsewhere.
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
