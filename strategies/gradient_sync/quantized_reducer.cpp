#include <algorithm>
#include <string>
#include <utility>

#include "strategies/gradient_sync/compressed_reducer.hpp"

namespace shardsim {

namespace {

using Counts = std::vector<std::int64_t>;

// The parts of a bucket that ranks add up: rank r has the r-th run of equally many whole blocks.
// The last owners may have fewer, or none. Nothing is padded: calls get the counts.
struct OwnedParts {
  Counts elements;         // By rank.
  Counts blocks;           // By rank.
  std::int64_t begin = 0;  // Start of this rank's part, in the bucket.
  std::int64_t first_block = 0;
  std::int64_t offset = 0;  // Its start in a buffer of this rank's parts of all buckets.
};

OwnedParts parts_of(const GradientCompression& rule, std::int64_t numel, std::int64_t ranks,
                    std::int64_t self) {
  const std::int64_t blocks = (num_blocks(rule, numel) + ranks - 1) / ranks;
  OwnedParts parts;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::int64_t first_block = std::min(rank * blocks, num_blocks(rule, numel));
    const std::int64_t begin = std::min(first_block * rule.block_size, numel);
    parts.elements.push_back(std::min(blocks * rule.block_size, numel - begin));
    parts.blocks.push_back(num_blocks(rule, parts.elements.back()));
    if (rank != self) continue;
    parts.begin = begin;
    parts.first_block = first_block;
  }
  return parts;
}

// An all_reduce whose two halves both send few bits: what is quantized goes to the owner of its
// part (all_to_all), who adds it up in rank order, and whose sum is quantized anew (all_gather).
// Each rank takes the sums as they were sent, the owner too, so that replicas agree in every bit.
// Both errors are kept where they arise: worker and server error of Tang et al. 2021, "1-bit Adam".
// Blocks with a scale each are those of Wang et al. 2023, "ZeRO++".
// All_to_alls run beside backward; what follows, one bucket beside the next, ends it.
class QuantizedReducer final : public WholeReducer {
 public:
  QuantizedReducer(const SyncPlan& plan, Runtime& runtime, Mesh& mesh)
      : WholeReducer(plan, runtime, mesh),
        group_(gradient_groups(plan, mesh).all),
        compressor_(plan.compression.compressor->make(plan.compression)),
        worker_errors_(plan, runtime, plan.layout->padded()),
        server_errors_(plan, runtime, cut_into_parts()),
        worker_name_("worker_error of data rank " + std::to_string(mesh.data_rank())) {}

  void reduce(int index) override {
    const FlatChunk& chunk = plan_.layout->chunk(index);
    const Tensor own = owned(index);
    worker_errors_.add_to(own, chunk.offset);
    InFlight bucket{.chunk = index};
    bucket.sent = compressor_->make_parcel(runtime_, own.numel(), own.dtype(), 1);
    compressor_->compress(runtime_, own, bucket.sent);
    worker_errors_.keep(own, chunk.offset);
    if (group_ == nullptr) {
      bucket.received = bucket.sent;
    } else {
      bucket.received =
          compressor_->make_parcel(runtime_, own_count(index), own.dtype(), group_->size());
      exchange(bucket);
    }
    in_flight_.push_back(std::move(bucket));
  }

  void finish() override {
    for (InFlight& bucket : in_flight_) {
      wait(bucket);
      add_up(bucket);
      gather(bucket);
    }
    for (InFlight& bucket : in_flight_) {
      wait(bucket);
      take_sums(bucket);
    }
    in_flight_.clear();
  }

  [[nodiscard]] std::vector<Residual> residuals(int chunk) const override {
    if (!worker_errors_.acts()) return {};
    const FlatChunk& flat = plan_.layout->chunk(chunk);
    const OwnedParts& parts = parts_at(chunk);
    return {{worker_name_, 0, worker_errors_.part(flat.offset, flat.padded)},
            {"server_error", parts.begin, server_errors_.part(parts.offset, own_count(chunk))}};
  }

 private:
  // Parcels: levels and scales.
  struct InFlight {
    int chunk;
    std::vector<Tensor> sent;
    std::vector<Tensor> received;  // This rank's part from all ranks, in rank order.
    std::vector<Tensor> sums;      // For the whole bucket.
    std::vector<Work> works;
  };

  // Returns how many elements this rank adds up.
  std::int64_t cut_into_parts() {
    const std::int64_t ranks = group_ == nullptr ? 1 : group_->size();
    std::int64_t total = 0;
    for (const FlatChunk& chunk : plan_.layout->chunks()) {
      parts_.push_back(parts_of(plan_.compression, chunk.padded, ranks, self()));
      parts_.back().offset = total;
      total += parts_.back().elements[to_size(self())];
    }
    return total;
  }

  [[nodiscard]] int self() const { return group_ == nullptr ? 0 : group_->rank(); }
  [[nodiscard]] const OwnedParts& parts_at(int chunk) const { return parts_[to_size(chunk)]; }
  [[nodiscard]] std::int64_t own_count(int chunk) const {
    return parts_at(chunk).elements[to_size(self())];
  }
  // Elements, or blocks, by rank: what levels, or scales, are cut into.
  [[nodiscard]] static const Counts& counts_of(const OwnedParts& parts, std::size_t tensor) {
    return tensor == 0 ? parts.elements : parts.blocks;
  }
  [[nodiscard]] const char* label_of(const InFlight& bucket) const {
    return plan_.layout->chunk(bucket.chunk).label.c_str();
  }

  static void wait(InFlight& bucket) {
    for (Work& work : bucket.works) work.wait();
    bucket.works.clear();
  }

  void exchange(InFlight& bucket) {
    for (std::size_t i = 0; i < bucket.sent.size(); ++i) {
      const Counts& sent = counts_of(parts_at(bucket.chunk), i);
      const Counts received(sent.size(), sent[to_size(self())]);
      bucket.works.push_back(group_->all_to_all(bucket.received[i], bucket.sent[i], sent, received,
                                                {.label = label_of(bucket)}));
    }
  }

  // This rank's part, quantized, into its place among the sums.
  void add_up(InFlight& bucket) {
    const OwnedParts& parts = parts_at(bucket.chunk);
    const Tensor sum = owned(bucket.chunk).view(parts.begin, {own_count(bucket.chunk)});
    const std::int64_t ranks = group_ == nullptr ? 1 : group_->size();
    add_up_parcels(runtime_, *compressor_, bucket.received, ranks, sum);
    bucket.sent.clear();
    bucket.received.clear();
    server_errors_.add_to(sum, parts.offset);
    const std::int64_t numel = plan_.layout->chunk(bucket.chunk).padded;
    bucket.sums = compressor_->make_parcel(runtime_, numel, sum.dtype(), 1);
    compressor_->compress(runtime_, sum, own_sums(bucket));
    server_errors_.keep(sum, parts.offset);
  }

  [[nodiscard]] std::vector<Tensor> own_sums(const InFlight& bucket) const {
    const OwnedParts& parts = parts_at(bucket.chunk);
    const auto rank = to_size(self());
    return {bucket.sums[0].view(parts.begin, {parts.elements[rank]}),
            bucket.sums[1].view(parts.first_block, {parts.blocks[rank]})};
  }

  void gather(InFlight& bucket) {
    if (group_ == nullptr) return;
    const std::vector<Tensor> own = own_sums(bucket);
    for (std::size_t i = 0; i < own.size(); ++i) {
      const Counts& counts = counts_of(parts_at(bucket.chunk), i);
      CallOptions options{.label = label_of(bucket)};
      // Equal parts are a plain all_gather, which every library has.
      if (counts.front() != counts.back()) options.counts = counts;
      bucket.works.push_back(group_->all_gather(bucket.sums[i], own[i], options));
    }
  }

  void take_sums(const InFlight& bucket) {
    const Tensor gradient = owned(bucket.chunk);
    std::int64_t bytes = gradient.num_bytes();
    for (const Tensor& tensor : bucket.sums) bytes += tensor.num_bytes();
    const char* const name = plan_.compression.compressor->unpacking;
    runtime_.compute(memory_op(name, gradient.dtype(), bytes), [&] {
      for (std::int64_t i = 0; i < gradient.numel(); ++i) gradient.set(i, 0.0);
      compressor_->add(gradient, bucket.sums, 0, 1);
    });
  }

  Communicator* group_;  // Null: this rank is alone. Compressed trainings are not elastic.
  std::unique_ptr<Compressor> compressor_;
  std::vector<OwnedParts> parts_;  // By chunk.
  ErrorFeedback worker_errors_;    // For all chunks.
  ErrorFeedback server_errors_;    // For this rank's parts of them.
  std::string worker_name_;
  std::vector<InFlight> in_flight_;
};

}  // namespace

std::unique_ptr<GradientReducer> make_quantized_reducer(const SyncPlan& plan, Runtime& runtime,
                                                        Mesh& mesh) {
  return std::make_unique<QuantizedReducer>(plan, runtime, mesh);
}

}  // namespace shardsim
