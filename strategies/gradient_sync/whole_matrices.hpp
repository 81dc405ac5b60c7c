#pragma once

#include <cstdint>
#include <vector>

#include "strategies/model/model.hpp"

// Layer-wise sharding of Muon: each parameter of matrices lies whole in one shard of its bucket, so
// that its owner updates it alone. Source: LayerWiseDistributedOptimizer of Megatron-Core
// (layer_wise_optimizer.py, NVIDIA/Megatron-LM@d98e8a6). Starts of parameters are not aligned to 64
// elements here, and a parameter of several matrices (q, k and v; experts) has one owner.
namespace shardsim {

/// Parameters of a bucket, and where they begin in it.
struct PackedMatrices {
  std::vector<int> parameters;        ///< In the order in which they lie.
  std::vector<std::int64_t> offsets;  ///< By parameter of that list.
  std::int64_t shard = 0;             ///< Elements of a shard: those of the fullest.
};

/// Fills buckets one after the other.
class WholeMatrixPacker {
 public:
  explicit WholeMatrixPacker(int num_shards);

  /// Whether the open bucket is closed before `numel` elements more: it has `cap` elements, and 0.9
  /// of what its largest parameter takes in all shards, and these would make it larger.
  [[nodiscard]] bool is_full(std::int64_t numel, std::int64_t cap) const;
  void add(std::int64_t numel);
  /// Closes the bucket, of these parameters. The one with the most work goes first, to the shard
  /// with the least work of all buckets that stays within 1.3 x the mean of the elements; where
  /// none does, to the one with the fewest elements. Work: max(m, n) min(m, n)^2 of each matrix.
  [[nodiscard]] PackedMatrices pack(const Model& model, const std::vector<int>& parameters);

 private:
  std::vector<std::int64_t> work_;  // By shard, of all buckets.
  // An estimate of what pack() makes of the open bucket.
  std::vector<std::int64_t> loads_;
  std::int64_t numel_ = 0;
  std::int64_t largest_ = 0;
};

}  // namespace shardsim
