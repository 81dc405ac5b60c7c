#include <utility>
#include <vector>

#include "sim/kernel/ring_queue.hpp"

#include "strategies/gradient_sync/gradient_reducer.hpp"
#include "strategies/gradient_sync/offload.hpp"

namespace shardsim {

namespace {

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

  Tensor gradient(int parameter) override {
    const FlatPlace& place = plan_.layout->place(parameter);
    return buffer(place.chunk).view(place.offset, plan_.layout->shape(parameter));
  }

  void reduce(int index) override {
    buffer(index);
    Tensor full = std::exchange(buffers_[static_cast<std::size_t>(index)], Tensor());
    ShardReduction reduction = post_shard_reduction(groups_, mesh_.tp(), plan_.layout->chunk(index),
                                                    full, part_of(full, index));
    in_flight_.push({index, std::move(full), std::move(reduction)});
    const std::size_t allowed =
        plan_.overlap_reduce ? static_cast<std::size_t>(plan_.reductions_in_flight) : 0;
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
    Tensor& buffer = buffers_[static_cast<std::size_t>(index)];
    if (!buffer.defined()) {
      while (num_live_ > plan_.reductions_in_flight && !in_flight_.empty()) finish_oldest();
      buffer = runtime_.allocate(MemoryCategory::grads, {plan_.layout->chunk(index).padded},
                                 plan_.gradient_dtype);
      runtime_.zero("zero_gradients", buffer);  // Fresh memory is not zero on a device.
      ++num_live_;
    }
    return buffer;
  }

  void finish_oldest() {
    InFlight oldest = in_flight_.pop();
    oldest.reduction.wait();
    accumulate(oldest.chunk, part_of(oldest.full, oldest.chunk));
    reduced_before_[static_cast<std::size_t>(oldest.chunk)] = true;
    --num_live_;
  }

  // Adds the reduced part to the shard; the first microbatch of a step replaces what was there.
  void accumulate(int chunk, const Tensor& part) {
    const Tensor home = owned(chunk);
    const bool add = reduced_before_[static_cast<std::size_t>(chunk)];
    if (plan_.offload_gradients && !add) {
      return runtime_.copy_over_host_link("copy_to_host", home, part);
    }
    OnDevice staged(runtime_, plan_.offload_gradients, MemoryCategory::grads, home);
    const Tensor& shard = staged.tensor();
    const ComputeOp op{"accumulate_shard", ComputeKind::memory_bound, shard.dtype(), 0,
                       part.num_bytes() + (add ? 2 : 1) * shard.num_bytes()};
    runtime_.compute(op, [&] {
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

}  // namespace

std::unique_ptr<GradientReducer> make_shard_reducer(const SyncPlan& plan, Runtime& runtime,
                                                    Mesh& mesh, const OwnedState& owned) {
  return std::make_unique<ShardReducer>(plan, runtime, mesh, owned);
}

}  // namespace shardsim
