#include "strategies/gradient_sync/gradient_reducer.hpp"

#include <cstring>
#include <utility>

#include "sim/kernel/ring_queue.hpp"

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

  [[nodiscard]] bool is_settled(int /*parameter*/) const override { return true; }

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

class ShardReducer final : public GradientReducer {
 public:
  ShardReducer(const SyncPlan& plan, Runtime& runtime, Mesh& mesh, const OwnedState& owned)
      : plan_(plan),
        runtime_(runtime),
        mesh_(mesh),
        groups_(gradient_groups(plan, mesh)),
        owned_(owned),
        shards_(allocate_home(runtime, plan.offload_gradients, MemoryCategory::grads,
                              {owned.total()}, plan.gradient_dtype)),
        buffers_(plan.layout->chunks().size()),
        reduced_before_(buffers_.size(), false) {}

  void begin_step() override { reduced_before_.assign(buffers_.size(), false); }

  [[nodiscard]] bool is_settled(int parameter) const override {
    return buffers_[to_size(plan_.layout->place(parameter).chunk)].defined();
  }
  Tensor gradient(int parameter) override {
    const FlatPlace& place = plan_.layout->place(parameter);
    return buffer(place.chunk).view(place.offset, plan_.layout->shape(parameter));
  }

  void reduce(int index) override {
    buffer(index);
    Tensor full = std::exchange(buffers_[to_size(index)], Tensor());
    ShardReduction reduction = post_shard_reduction(groups_, mesh_.tp(), plan_.layout->chunk(index),
                                                    full, part_of(full, index));
    in_flight_.push({index, std::move(full), std::move(reduction)});
    const std::size_t allowed = plan_.overlap_reduce ? to_size(plan_.reductions_in_flight) : 0;
    while (in_flight_.size() > allowed) finish_oldest();
  }

  void finish() override {
    while (!in_flight_.empty()) finish_oldest();
  }

  [[nodiscard]] Tensor owned(int chunk) const override {
    return owned_.part_of_shards(shards_, chunk);
  }

 private:
  // A chunk on its way; backward of the next microbatch may fill a new buffer for it meanwhile.
  struct InFlight {
    int chunk = 0;
    Tensor full;
    ShardReduction reduction;
  };

  [[nodiscard]] Tensor part_of(const Tensor& full, int chunk) const {
    return full.view(owned_.begin(chunk), {owned_.part(chunk)});
  }

  const Tensor& buffer(int index) {
    Tensor& buffer = buffers_[to_size(index)];
    if (!buffer.defined()) {
      while (num_live_ > plan_.reductions_in_flight && !in_flight_.empty()) finish_oldest();
      buffer = runtime_.allocate(MemoryCategory::grads, {plan_.layout->chunk(index).padded},
                                 plan_.gradient_dtype);
      prepare(buffer);
      ++num_live_;
    }
    return buffer;
  }

  // Fresh memory is not zero on a device. Where gradients are copied, products write them as
  // weights are, and the copies are charged here, once for each reduction.
  void prepare(const Tensor& buffer) {
    if (!plan_.copies_units) return runtime_.zero("zero_gradients", buffer);
    const std::int64_t read = buffer.numel() * size_of(plan_.weight_dtype);
    runtime_.compute(memory_op("copy_gradients", buffer.dtype(), read + buffer.num_bytes()),
                     [&] { std::memset(buffer.wire_data(), 0, to_size(buffer.num_bytes())); });
  }

  void finish_oldest() {
    InFlight oldest = in_flight_.pop();
    oldest.reduction.wait();
    accumulate(oldest.chunk, part_of(oldest.full, oldest.chunk));
    reduced_before_[to_size(oldest.chunk)] = true;
    --num_live_;
  }

  // Adds the reduced part to the shard; the first microbatch of a step replaces what was there.
  void accumulate(int chunk, const Tensor& part) {
    const Tensor home = owned(chunk);
    const bool add = reduced_before_[to_size(chunk)];
    if (plan_.offload_gradients && !add) {
      return runtime_.copy_over_host_link("copy_to_host", home, part);
    }
    OnDevice staged(runtime_, plan_.offload_gradients, MemoryCategory::grads, home);
    const Tensor& shard = staged.tensor();
    const std::int64_t bytes = part.num_bytes() + (add ? 2 : 1) * shard.num_bytes();
    runtime_.compute(memory_op("accumulate_shard", shard.dtype(), bytes), [&] {
      for (std::int64_t i = 0; i < shard.numel(); ++i) {
        shard.set(i, part.get(i) + (add ? shard.get(i) : 0.0));
      }
    });
    staged.put_back();
  }

  const SyncPlan& plan_;
  Runtime& runtime_;
  Mesh& mesh_;
  ReplicaGroups groups_;
  const OwnedState& owned_;
  Tensor shards_;                // This rank's part of all chunks, summed.
  std::vector<Tensor> buffers_;  // Whole chunks; undefined unless being filled or reduced.
  std::vector<bool> reduced_before_;
  RingQueue<InFlight> in_flight_;
  int num_live_ = 0;
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

std::unique_ptr<GradientReducer> make_shard_reducer(const SyncPlan& plan, Runtime& runtime,
                                                    Mesh& mesh, const OwnedState& owned) {
  return std::make_unique<ShardReducer>(plan, runtime, mesh, owned);
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
