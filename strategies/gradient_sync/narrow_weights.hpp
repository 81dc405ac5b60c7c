#pragma once

#include <cstdint>
#include <vector>

#include "strategies/gradient_sync/gradient_sync.hpp"

// Weights of products in low precision that ranks keep in 8 bits alone, beside masters in fp32:
// Megatron-LM's --fp8-param-gather. They have prices, and no data yet.
//
//   scales of whole tensors, or of square blocks   the owner of a shard casts its masters, once all
//                                                  owners have agreed on the scales; codes are
//                                                  gathered: 1 byte for each element
//   other blocks, weights that stay (ZeRO-1)       16 bits are gathered into the memory of
//   gradients,
//                                                  and each rank casts all of them
//   other blocks, fully sharded                    shards of both copies are kept; the copy that a
//                                                  pass reads is gathered, with its scales
//
// Sources: Transformer Engine at d0067d0d, pytorch/tensor/utils.py (cast_master_weights_to_fp8);
// Megatron-LM at d98e8a64, param_and_grad_buffer.py (reuse_grad_buf_for_mxfp8_param_ag).
namespace shardsim {

/// Bytes of a rank's chunks of weights. Padding is as wide as weights that are not narrow.
class NarrowWeights {
 public:
  /// `num_shards`: owners of each chunk. `fully_sharded`: weights are gathered for each use.
  /// Throws UsageError E0685 where there is data.
  NarrowWeights(const SyncPlan& plan, Runtime& runtime, int num_shards, bool fully_sharded);

  /// Bytes of a chunk that all owners keep together, or that are sent when it is gathered:
  /// multiples of their number.
  [[nodiscard]] std::int64_t kept(int chunk) const { return chunks_[to_size(chunk)].kept; }
  [[nodiscard]] std::int64_t sent(int chunk) const { return chunks_[to_size(chunk)].sent; }
  /// The first byte of what is kept, where chunks follow each other.
  [[nodiscard]] std::int64_t first(int chunk) const { return chunks_[to_size(chunk)].first; }
  [[nodiscard]] std::int64_t kept() const;
  /// Options of a call that gathers the chunk.
  [[nodiscard]] CallOptions call_options(int chunk) const;

  /// Whether owners agree on scales ahead of their casts.
  [[nodiscard]] bool has_common_scales() const { return scales_ > 0; }
  /// The largest elements that scales come from: of masters on this rank, then of all owners.
  void agree_on_scales(Runtime& runtime, Communicator* owners) const;

 private:
  struct Chunk {
    std::int64_t kept = 0;
    std::int64_t sent = 0;
    std::int64_t first = 0;
    std::int64_t padding = 0;  // In what is sent.
  };
  const SyncPlan& plan_;
  std::vector<Chunk> chunks_;
  std::int64_t scales_ = 0;           // All weights'; 0: ranks need not agree.
  std::int64_t narrow_elements_ = 0;  // That this rank owns.
  bool reads_for_scale_ = false;
  Tensor scales_of_blocks_;  // Square ones': each rank has all.
};

/// A weight of a buffer that has no data: its shape is all that is read.
[[nodiscard]] Tensor shape_of_narrow(const Tensor& buffer, const SyncPlan& plan, int parameter);
/// Elements of all chunks that are no weights of products in low precision.
[[nodiscard]] std::int64_t wide_elements(const SyncPlan& plan);
/// Whether these are gathered in 8 bits.
[[nodiscard]] bool gathers_codes(const LowPrecision& low, bool fully_sharded);

}  // namespace shardsim
