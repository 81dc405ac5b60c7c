#include "strategies/gradient_sync/compressed_reducer.hpp"

#include <string>
#include <utility>

namespace shardsim {

void add_up_parcels(Runtime& runtime, const Compressor& compressor,
                    const std::vector<Tensor>& gathered, std::int64_t ranks, const Tensor& sum) {
  std::int64_t bytes = 2 * sum.num_bytes();
  for (const Tensor& tensor : gathered) bytes += tensor.num_bytes();
  runtime.compute(memory_op("add_up_gradients", sum.dtype(), bytes), [&] {
    for (std::int64_t i = 0; i < sum.numel(); ++i) sum.set(i, 0.0);
    for (std::int64_t rank = 0; rank < ranks; ++rank) compressor.add(sum, gathered, rank, ranks);
  });
}

ErrorFeedback::ErrorFeedback(const SyncPlan& plan, Runtime& runtime, std::int64_t numel)
    : runtime_(runtime) {
  if (!plan.compression.error_feedback) return;
  errors_ = runtime.allocate(MemoryCategory::optimizer, {numel}, plan.gradient_dtype);
}

void ErrorFeedback::add_to(const Tensor& values, std::int64_t at) {
  if (!acts()) return;
  const Tensor errors = part(at, values.numel());
  runtime_.compute(memory_op("add_residual", values.dtype(), 3 * values.num_bytes()), [&] {
    for (std::int64_t i = 0; i < values.numel(); ++i) values.set(i, values.get(i) + errors.get(i));
  });
}

void ErrorFeedback::keep(const Tensor& left, std::int64_t at) {
  if (!acts()) return;
  const Tensor errors = part(at, left.numel());
  runtime_.compute(memory_op("keep_residual", left.dtype(), 2 * left.num_bytes()), [&] {
    for (std::int64_t i = 0; i < left.numel(); ++i) errors.set(i, left.get(i));
  });
}

namespace {

// For parcels whose places differ from rank to rank, so that a sum is larger than a parcel. Every
// rank adds up all parcels in rank order, so that replicas agree in every bit.
class GatheredReducer final : public WholeReducer {
 public:
  GatheredReducer(const SyncPlan& plan, Runtime& runtime, Mesh& mesh)
      : WholeReducer(plan, runtime, mesh),
        compressor_(plan.compression.compressor->make(plan.compression)),
        errors_(plan, runtime, plan.layout->padded()),
        error_name_("residual of data rank " + std::to_string(mesh.data_rank())) {}

  void reduce(int index) override {
    Communicator* const all = gradient_groups(plan_, mesh_).all;
    const FlatChunk& chunk = plan_.layout->chunk(index);
    const Tensor own = owned(index);
    errors_.add_to(own, chunk.offset);
    InFlight bucket{
        index, compressor_->make_parcel(runtime_, chunk.padded, own.dtype(), 1), {}, {}};
    compressor_->compress(runtime_, own, bucket.sent);
    errors_.keep(own, chunk.offset);
    if (all == nullptr) {
      bucket.gathered = bucket.sent;
    } else {
      bucket.gathered = compressor_->make_parcel(runtime_, chunk.padded, own.dtype(), all->size());
      for (std::size_t i = 0; i < bucket.sent.size(); ++i) {
        bucket.works.push_back(
            all->all_gather(bucket.gathered[i], bucket.sent[i], {.label = chunk.label.c_str()}));
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

  [[nodiscard]] std::vector<Residual> residuals(int chunk) const override {
    if (!errors_.acts()) return {};
    const FlatChunk& flat = plan_.layout->chunk(chunk);
    return {{error_name_, 0, errors_.part(flat.offset, flat.padded)}};
  }

 private:
  struct InFlight {
    int chunk;
    std::vector<Tensor> sent;      // This rank's parcel.
    std::vector<Tensor> gathered;  // Those of all ranks, in rank order.
    std::vector<Work> works;
  };

  void add_up(const InFlight& bucket) {
    const Tensor sum = owned(bucket.chunk);
    Communicator* const all = gradient_groups(plan_, mesh_).all;
    const std::int64_t ranks = all == nullptr ? 1 : all->size();
    add_up_parcels(runtime_, *compressor_, bucket.gathered, ranks, sum);
  }

  std::unique_ptr<Compressor> compressor_;
  ErrorFeedback errors_;
  std::string error_name_;
  std::vector<InFlight> in_flight_;
};

}  // namespace

std::unique_ptr<GradientReducer> make_gathered_reducer(const SyncPlan& plan, Runtime& runtime,
                                                       Mesh& mesh) {
  return std::make_unique<GatheredReducer>(plan, runtime, mesh);
}

std::unique_ptr<GradientReducer> make_compressed_reducer(const SyncPlan& plan, Runtime& runtime,
                                                         Mesh& mesh) {
  return plan.compression.compressor->route.make_reducer(plan, runtime, mesh);
}

}  // namespace shardsim
