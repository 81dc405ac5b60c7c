#include <utility>
#include <vector>

#include "strategies/gradient_sync/gradient_norm.hpp"
#include "strategies/gradient_sync/gradient_reducer.hpp"
#include "strategies/gradient_sync/gradient_sync.hpp"
#include "strategies/gradient_sync/offload.hpp"

namespace shardsim {

namespace {

// Counts which chunks have all their gradients within one microbatch.
class ReadyTracker {
 public:
  explicit ReadyTracker(const FlatLayout& layout)
      : layout_(layout), missing_(layout.chunks().size()) {
    for (int chunk = 0; chunk < static_cast<int>(missing_.size()); ++chunk) reset(chunk);
  }

  void reset(int chunk) {
    missing_[static_cast<std::size_t>(chunk)] =
        static_cast<int>(layout_.chunk(chunk).parameters.size());
  }
  void mark(int parameter) { --missing_[static_cast<std::size_t>(layout_.place(parameter).chunk)]; }
  [[nodiscard]] bool ready(int chunk) const {
    return missing_[static_cast<std::size_t>(chunk)] <= 0;
  }

 private:
  const FlatLayout& layout_;
  std::vector<int> missing_;
};

class BucketedSync final : public GradientSync {
 public:
  BucketedSync(int zero_stage, const SyncPlan& plan, Runtime& runtime, Mesh& mesh)
      : plan_(plan),
        runtime_(runtime),
        mesh_(mesh),
        owned_(plan, runtime, mesh, zero_stage > 0 ? mesh.replicas(plan.kind).num_shards : 1),
        weights_(
            runtime.allocate(MemoryCategory::params, {plan.layout->padded()}, plan.weight_dtype)),
        reducer_(make_reducer(zero_stage)),
        tracker_(*plan.layout),
        buckets_(static_cast<std::size_t>(plan.model->num_chunks())),
        owns_all_(zero_stage == 0),
        reduces_every_microbatch_(zero_stage == 2 && plan.reduce_every_microbatch),
        reduces_within_backward_(zero_stage == 2 || plan.overlap_reduce) {
    for (int chunk = 0; chunk < num_chunks(); ++chunk) {
      owned_.initialize(chunk, 0, whole_weights(chunk));
    }
    owned_.initialize_master();
    for (int bucket = 0; bucket < num_chunks(); ++bucket) {
      of_chunk(plan.layout->chunk(bucket).model_chunk).members.push_back(bucket);
    }
  }

  Tensor weight(int parameter) override {
    const FlatPlace& place = plan_.layout->place(parameter);
    return weights_.view(plan_.layout->chunk(place.chunk).offset + place.offset,
                         plan_.layout->shape(parameter));
  }
  Tensor gradient(int parameter) override { return reducer_->gradient(parameter); }

  void begin_step() override {
    for (Buckets& buckets : buckets_) buckets.reducing = false;
    reducer_->begin_step();
  }

  void begin_weight_gradients(int chunk, bool last) override {
    Buckets& buckets = of_chunk(chunk);
    if (buckets.reducing) reduce_rest(buckets);  // Left by the microbatch before.
    buckets.reducing = last || reduces_every_microbatch_;
    buckets.next = 0;
    for (const int bucket : buckets.members) tracker_.reset(bucket);
  }

  void gradient_ready(int parameter) override {
    const int bucket = plan_.layout->place(parameter).chunk;
    Buckets& buckets = of_chunk(plan_.layout->chunk(bucket).model_chunk);
    if (!buckets.reducing || !reduces_within_backward_) return;
    tracker_.mark(parameter);
    // In the order of the buckets, whichever is ready first: the order must be that of all ranks.
    while (buckets.left() && tracker_.ready(buckets.front())) reducer_->reduce(buckets.take());
  }

  // The last chunk's backward comes first.
  void finish_gradients() override {
    for (std::size_t chunk = buckets_.size(); chunk-- > 0;) reduce_rest(buckets_[chunk]);
    reducer_->finish();
  }

  [[nodiscard]] bool has_gradients() const override { return reducer_->has_gradients(); }
  void drain() override { reducer_->drain(); }

  bool found_inf() override {
    bool found = false;
    for (int chunk = 0; chunk < num_chunks(); ++chunk) {
      // Every chunk is read, whatever was found before.
      if (has_non_finite(runtime_, gradient_of(chunk).tensor())) found = true;
    }
    return any_of_owners(runtime_, mesh_, plan_.kind, !owns_all_, found);
  }

  double gradient_norm(NormType type) override {
    GradientNorm norm(runtime_, plan_, mesh_, type);
    for (int chunk = 0; chunk < num_chunks(); ++chunk) {
      norm.add(chunk, owned_.begin(chunk), gradient_of(chunk).tensor());
    }
    return norm.over_owners(!owns_all_);
  }

  // A bucket's gather runs while later buckets are updated, not into the next step's forward: a
  // step's time contains its own gathers.
  void apply_optimizer(double gradient_scale, std::int64_t step) override {
    std::vector<Work> gathers;
    for (int chunk = 0; chunk < num_chunks(); ++chunk) {
      const Tensor part = owned_.part_of_full(weights_, chunk);
      owned_.update(chunk, part, gradient_of(chunk).tensor(), gradient_scale, step);
      Communicator* const shards = mesh_.replicas(plan_.kind).shard;
      if (owns_all_ || shards == nullptr) continue;
      const FlatChunk& flat = plan_.layout->chunk(chunk);
      gathers.push_back(
          shards->all_gather(whole_weights(chunk), part, flat.call_options(mesh_.tp())));
      if (!plan_.overlap_gather) gathers.back().wait();
    }
    for (Work& gather : gathers) gather.wait();
  }

  void visit(StateKind kind, const StateVisitor& visitor) const override {
    if (kind == StateKind::optimizer_state) return owned_.visit(visitor);
    if (kind == StateKind::rank_state) return visit_residuals(visitor);
    if (kind == StateKind::gradient && !has_gradients()) return;
    for (int chunk = 0; chunk < num_chunks(); ++chunk) {
      if (kind == StateKind::parameter) {
        owned_.visit_values(kind, {}, chunk, 0, whole_weights(chunk), visitor);
      } else {
        owned_.visit_values(kind, {}, chunk, owned_.begin(chunk), reducer_->owned(chunk), visitor);
      }
    }
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
  [[nodiscard]] Buckets& of_chunk(int chunk) { return buckets_[static_cast<std::size_t>(chunk)]; }

  // For each step under way its own, where gradients are applied late.
  [[nodiscard]] std::unique_ptr<GradientReducer> make_reducer(int zero_stage) {
    if (plan_.compression.acts()) return make_compressed_reducer(plan_, runtime_, mesh_);
    if (zero_stage == 2) return make_shard_reducer(plan_, runtime_, mesh_, owned_);
    if (plan_.max_staleness > 0) make_late_groups(zero_stage > 0);
    std::vector<std::unique_ptr<GradientReducer>> ring;
    for (int i = 0; i <= plan_.max_staleness; ++i) {
      ring.push_back(
          make_full_reducer(plan_, runtime_, mesh_, owned_, zero_stage > 0, late_groups_));
    }
    return ring.size() == 1 ? std::move(ring.front()) : make_stale_reducer(std::move(ring));
  }

  void make_late_groups(bool sharded) {
    const ReplicaGroups groups = gradient_groups(plan_, mesh_);
    const auto copy = [](Communicator* group) {
      return group == nullptr ? nullptr : group->split(0, group->rank(), group->name());
    };
    if (sharded) {
      late_groups_.shard = copy(groups.shard);
      late_groups_.replicate = copy(groups.replicate);
    } else {
      late_groups_.all = copy(groups.all);
    }
  }

  void visit_residuals(const StateVisitor& visitor) const {
    for (int chunk = 0; chunk < num_chunks(); ++chunk) {
      for (const Residual& residual : reducer_->residuals(chunk)) {
        owned_.visit_values(StateKind::rank_state, residual.name, chunk, residual.begin,
                            residual.values, visitor);
      }
    }
  }

  [[nodiscard]] OnDevice gradient_of(int chunk) {
    return {runtime_, plan_.offload_gradients, MemoryCategory::grads, reducer_->owned(chunk)};
  }
  [[nodiscard]] int num_chunks() const { return static_cast<int>(plan_.layout->chunks().size()); }
  [[nodiscard]] Tensor whole_weights(int chunk) const {
    const FlatChunk& flat = plan_.layout->chunk(chunk);
    return weights_.view(flat.offset, {flat.padded});
  }
  // Without overlap all buckets; else those with parameters that backward never reported: their
  // gradient is zero on this rank.
  void reduce_rest(Buckets& buckets) {
    while (buckets.left()) reducer_->reduce(buckets.take());
  }

  const SyncPlan& plan_;
  Runtime& runtime_;
  Mesh& mesh_;
  OwnedState owned_;
  Tensor weights_;  // All chunks, with padding.
  // Groups for late gradients: losses and gathers of weights are waited for in their own step.
  LateGroups late_groups_;
  std::unique_ptr<GradientReducer> reducer_;
  ReadyTracker tracker_;
  std::vector<Buckets> buckets_;  // By model chunk.
  bool owns_all_;
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
