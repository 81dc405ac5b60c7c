#include "strategies/gradient_sync/compressed_reducer.hpp"

#include <utility>

#include "strategies/gradient_sync/gradient_groups.hpp"

namespace shardsim {

namespace {

std::unique_ptr<Compressor> make_compressor(const GradientCompression& options) {
  return options.kind == CompressionKind::top_k ? make_top_k(options) : make_int8_blocks(options);
}

// Gathered, not reduced: sums of what is compressed cannot be compressed on the way without a
// second error. Every rank adds up all parcels in rank order, so that replicas agree in every bit.
class CompressedReducer final : public GradientReducer {
 public:
  CompressedReducer(const SyncPlan& plan, Runtime& runtime, Mesh& mesh)
      : plan_(plan),
        runtime_(runtime),
        mesh_(mesh),
        compressor_(make_compressor(plan.compression)),
        gradients_(
            runtime.allocate(MemoryCategory::grads, {plan.layout->padded()}, plan.gradient_dtype)) {
    if (!plan.compression.error_feedback) return;
    residuals_ =
        runtime.allocate(MemoryCategory::optimizer, {plan.layout->padded()}, plan.gradient_dtype);
  }

  void begin_step() override { runtime_.zero("zero_gradients", gradients_); }

  Tensor gradient(int parameter) override {
    const FlatPlace& place = plan_.layout->place(parameter);
    return gradients_.view(plan_.layout->chunk(place.chunk).offset + place.offset,
                           plan_.layout->shape(parameter));
  }

  void reduce(int index) override {
    Communicator* const all = gradient_groups(plan_, mesh_).all;
    const FlatChunk& chunk = plan_.layout->chunk(index);
    const Tensor own = owned(index);
    if (residuals_.defined()) add_residual(own, residual(index));
    const std::int64_t ranks = all == nullptr ? 1 : all->size();
    InFlight bucket{index, {}, {}};
    bucket.data.sent = compressor_->make_parcel(runtime_, chunk.padded, own.dtype(), 1);
    compressor_->compress(runtime_, own, bucket.data.sent);
    // What compress() left.
    if (residuals_.defined()) keep_residual(own, residual(index));
    if (all == nullptr) {
      bucket.data.gathered = bucket.data.sent;
    } else {
      bucket.data.gathered = compressor_->make_parcel(runtime_, chunk.padded, own.dtype(), ranks);
      for (std::size_t i = 0; i < bucket.data.sent.size(); ++i) {
        bucket.works.push_back(all->all_gather(bucket.data.gathered[i], bucket.data.sent[i],
                                               {.label = chunk.label.c_str()}));
      }
    }
    in_flight_.push_back(std::move(bucket));
  }

  void finish() override {
    for (InFlight& bucket : in_flight_) {
      for (Work& work : bucket.works) work.wait();
      add_up(bucket);
    }
    in_flight_.clear();
  }

  [[nodiscard]] Tensor owned(int chunk) const override { return part_of(gradients_, chunk); }
  [[nodiscard]] Tensor residual(int chunk) const override {
    return residuals_.defined() ? part_of(residuals_, chunk) : Tensor();
  }

 private:
  struct InFlight {
    int chunk;
    CompressedBucket data;
    std::vector<Work> works;
  };

  [[nodiscard]] Tensor part_of(const Tensor& all, int chunk) const {
    const FlatChunk& flat = plan_.layout->chunk(chunk);
    return all.view(flat.offset, {flat.padded});
  }

  void add_residual(const Tensor& gradient, const Tensor& residual) {
    const ComputeOp op{"add_residual", ComputeKind::memory_bound, gradient.dtype(), 0,
                       3 * gradient.num_bytes()};
    runtime_.compute(op, [&] {
      for (std::int64_t i = 0; i < gradient.numel(); ++i) {
        gradient.set(i, gradient.get(i) + residual.get(i));
      }
    });
  }

  void keep_residual(const Tensor& gradient, const Tensor& residual) {
    const ComputeOp op{"keep_residual", ComputeKind::memory_bound, gradient.dtype(), 0,
                       2 * gradient.num_bytes()};
    runtime_.compute(op, [&] {
      for (std::int64_t i = 0; i < gradient.numel(); ++i) residual.set(i, gradient.get(i));
    });
  }

  void add_up(const InFlight& bucket) {
    const Tensor sum = owned(bucket.chunk);
    Communicator* const all = gradient_groups(plan_, mesh_).all;
    const std::int64_t ranks = all == nullptr ? 1 : all->size();
    std::int64_t bytes = 2 * sum.num_bytes();
    for (const Tensor& tensor : bucket.data.gathered) bytes += tensor.num_bytes();
    runtime_.compute({"add_up_gradients", ComputeKind::memory_bound, sum.dtype(), 0, bytes}, [&] {
      for (std::int64_t i = 0; i < sum.numel(); ++i) sum.set(i, 0.0);
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        compressor_->add(sum, bucket.data.gathered, rank, ranks);
      }
    });
  }

  const SyncPlan& plan_;
  Runtime& runtime_;
  Mesh& mesh_;
  std::unique_ptr<Compressor> compressor_;
  Tensor gradients_;  // All chunks.
  Tensor residuals_;  // What was not sent yet, of all chunks; undefined without error feedback.
  std::vector<InFlight> in_flight_;
};

}  // namespace

std::unique_ptr<GradientReducer> make_compressed_reducer(const SyncPlan& plan, Runtime& runtime,
                                                         Mesh& mesh) {
  return std::make_unique<CompressedReducer>(plan, runtime, mesh);
}

}  // namespace shardsim
