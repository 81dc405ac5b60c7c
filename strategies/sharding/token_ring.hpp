#pragma once

#include <cstdint>
#include <utility>

#include "backends/communicator.hpp"
#include "backends/runtime.hpp"

#include "strategies/model/layer.hpp"
#include "strategies/sharding/ring_hop.hpp"

// Shards of tokens go round the ranks of a tensor-parallel group while linear layers compute with
// those that are here: each rank sends to the next and receives from the one before, t - 1 times.
// As many bytes go as in an all_gather or a reduce_scatter, and what the products cover is hidden.
// Sources: Wang et al., "Overlap Communication with Dependent Computation via Decomposition"
// (ASPLOS 2023); Transformer Engine's user buffers with ring exchange (comm_gemm_overlap at
// d0067d0d); PyTorch's async tensor parallelism.
namespace shardsim {

/// Gathers shards. A rank's own is there at once; then come those of the ranks before it.
class GatheringRing {
 public:
  /// `whole`: a tensor of all shards, in the order of the ranks; it gets this rank's `shard`, which
  /// costs nothing: it was written there.
  GatheringRing(Runtime& runtime, Communicator& ring, Tensor whole, const Tensor& shard,
                const char* label);

  /// Whether this is what it gathers.
  [[nodiscard]] bool brings(const Tensor& x) const { return whole_.shares_storage(x); }
  /// Calls work(first row, rows) for each shard as it arrives, while the next one is under way.
  template <typename Work>
  void each_shard(const Work& work) {
    for (int step = 0; step < ring_.size(); ++step) {
      RingHop hop;
      const bool is_last = step + 1 == ring_.size();
      if (!is_last) hop = RingHop(ring_, shard_at(step), shard_at(step + 1), label_);
      work(owner_at(step) * rows_, rows_);
      if (!is_last) static_cast<void>(hop.take());
    }
  }

 private:
  [[nodiscard]] std::int64_t owner_at(int step) const {
    return (ring_.rank() + ring_.size() - step) % ring_.size();
  }
  [[nodiscard]] Tensor shard_at(int step) const;

  Communicator& ring_;
  Tensor whole_;
  std::int64_t rows_;  // In a shard.
  const char* label_;
};

/// Sums partial results, of which each rank keeps one shard. `make(first row, rows)` returns this
/// rank's part of a shard; the sum of those of the ranks before arrives meanwhile. They are added
/// in the order of the ring, from the next rank on, and rounded at each hop.
template <typename Make>
[[nodiscard]] Tensor reduce_round_ring(Runtime& runtime, Communicator& ring, std::int64_t rows,
                                       const Make& make, const char* label) {
  RingHop hop;
  for (int step = 0; step < ring.size(); ++step) {
    const std::int64_t shard = (ring.rank() + 2 * ring.size() - 1 - step) % ring.size();
    Tensor sum = make(shard * rows, rows);
    if (step > 0) add_in_place(runtime, hop.take(), sum);
    if (step + 1 == ring.size()) return sum;
    Tensor comes = runtime.allocate(MemoryCategory::comm, sum.shape(), sum.dtype());
    hop = RingHop(ring, std::move(sum), std::move(comes), label);
  }
  return {};
}

}  // namespace shardsim
