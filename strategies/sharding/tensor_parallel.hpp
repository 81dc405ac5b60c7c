#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "backends/communicator.hpp"
#include "backends/runtime.hpp"

#include "strategies/model/loss.hpp"
#include "strategies/model/region_input.hpp"
#include "strategies/sharding/token_ring.hpp"

// Tensor parallelism: t ranks have a part of each layer's matrices and go through the model
// together. A column-parallel layer has some of the outputs (rows of W), needs its whole input, and
// leaves its output cut; a row-parallel layer has some of the inputs (columns of W), takes them as
// they were cut, and leaves a partial sum. Between the two lies a region in which activations are
// cut. The operators at its borders, forward beside backward, are all there is to communicate:
//
//                 forward                          backward
//   copy_to       nothing                          all_reduce of the partial input gradient
//   reduce_from   all_reduce of the partial sum    nothing
//
// With sequence parallelism a rank has the activations outside of regions for its share of the
// tokens only:
//
//   copy_to       all_gather of the token shards   reduce_scatter of the partial input gradient
//   reduce_from   reduce_scatter                   all_gather of the output gradient's shards
//
// and the region's input is gathered again for the gradients of the weights. Tokens [b, s] are
// counted in one row: rank r has [r b s / t, (r + 1) b s / t), so that shards one after the other
// are the whole, whatever b is.
//
// Rules of use: all ranks of the group call the same operators in the same order. A region is
// left before another one is entered, in either direction, also where layers do not communicate:
// every operator is told the layer's name and checks it.
// Sources: Shoeybi et al., "Megatron-LM" (2019); Korthikanti et al., "Reducing Activation
// Recomputation in Large Transformer Models" (2022).
namespace shardsim {

/// A communication under way (or none), and the tensor it ends in.
class PendingTensor {
 public:
  PendingTensor() = default;
  explicit PendingTensor(Tensor result) : result_(std::move(result)) {}
  /// `source` is read by the communication and released at its end.
  PendingTensor(Tensor result, Tensor source, Work work)
      : result_(std::move(result)), source_(std::move(source)), work_(std::move(work)) {}

  /// Waits. To be called once.
  [[nodiscard]] Tensor take() {
    work_.wait();
    source_ = {};
    return std::exchange(result_, Tensor());
  }

 private:
  Tensor result_;
  Tensor source_;
  Work work_;
};

/// One rank's end of a tensor-parallel group.
class TensorParallel {
 public:
  /// `group` must outlive it. `overlaps`: with sequence parallelism, linear layers compute while
  /// shards go round a ring (token_ring.hpp).
  TensorParallel(Communicator& group, bool sequence_parallel, bool overlaps = false)
      : group_(group),
        sequence_parallel_(sequence_parallel),
        overlaps_(overlaps && sequence_parallel) {}

  [[nodiscard]] int rank() const { return group_.rank(); }
  [[nodiscard]] int size() const { return group_.size(); }
  [[nodiscard]] bool sequence_parallel() const { return sequence_parallel_; }
  [[nodiscard]] bool overlaps() const { return overlaps_; }
  [[nodiscard]] Communicator& group() const { return group_; }

  /// First token of this rank's shard of `shard_tokens`; 0 where every rank has all tokens.
  [[nodiscard]] std::int64_t first_token(std::int64_t shard_tokens) const {
    return sequence_parallel_ ? rank() * shard_tokens : 0;
  }

  /// x [b, s, h], or a shard [b s / t, h] -> what the region's layers read, in shape `whole`.
  [[nodiscard]] Tensor copy_to(Runtime& runtime, const Tensor& x, const Shape& whole,
                               const char* layer, RegionInput input = RegionInput::enters);
  /// The same, with shards that arrive as linear layers read them: apply_linear() is the first
  /// reader. REQUIRES: overlaps().
  [[nodiscard]] Tensor copy_to_by_shard(Runtime& runtime, const Tensor& x, const Shape& whole,
                                        const char* layer);
  /// The ring that brings x; null: x is there.
  [[nodiscard]] GatheringRing* bringing(const Tensor& x) {
    return arriving_ && arriving_->brings(x) ? &*arriving_ : nullptr;
  }
  /// All shards have come.
  void arrived() { arriving_.reset(); }
  /// Posts the sum of the partial gradients `dx` [b, s, h], which becomes [b, s, h] or the shard.
  [[nodiscard]] PendingTensor copy_to_backward(Runtime& runtime, Tensor dx, const char* layer,
                                               RegionInput input = RegionInput::enters);

  /// The partial sum y [b, s, h] -> the sum [b, s, h] or this rank's shard of it. Throws UsageError
  /// if b s does not divide into shards.
  [[nodiscard]] Tensor reduce_from(Runtime& runtime, Tensor y, const char* layer);
  /// dy [b, s, h] or its shard -> the whole [b, s, h], in shape `whole`.
  [[nodiscard]] Tensor reduce_from_backward(Runtime& runtime, const Tensor& dy, const Shape& whole,
                                            const char* layer);

  /// Posts the gathering of a shard [b s / t, h] for gradients of weights -> [b s, h]. Without
  /// sequence parallelism `x` is the whole already, and the result.
  [[nodiscard]] PendingTensor gather_tokens(Runtime& runtime, const Tensor& x, const char* label);

  /// The borders that need no communication: a lookup that leaves a partial sum begins a region, a
  /// loss that reads a cut output ends one. Throw UsageError, with both layers' names, if a region
  /// was not left, or not entered.
  void begin_region(const char* layer);
  void end_region(const char* layer);

 private:
  void require_region(const char* layer) const;
  // Posts the gathering of token shards to a tensor of shape `whole`, or does nothing without them.
  [[nodiscard]] PendingTensor gather(Runtime& runtime, const Tensor& shard, const Shape& whole,
                                     const char* label, CallSite site = CallSite::here());
  // Posts the sum of partial results over ranks, which becomes the whole or this rank's shard.
  [[nodiscard]] PendingTensor sum(Runtime& runtime, Tensor partial, const char* label,
                                  const char* layer, CallSite site = CallSite::here());

  Communicator& group_;
  bool sequence_parallel_;
  bool overlaps_;
  std::optional<GatheringRing> arriving_;
  const char* region_ = nullptr;  // The layer that entered it; null outside.
};

/// Rows of the token shard of t ranks. Throws UsageError unless t divides the tokens.
[[nodiscard]] std::int64_t token_shard(std::int64_t tokens, std::int64_t t, const char* layer);

// The cross entropy of logits that are cut along the vocabulary. The logits of all classes, often
// the largest tensor of a step, are never brought together: three numbers per row are.
// Source: Shoeybi et al., "Megatron-LM" (2019), section 3.

/// As cross_entropy_forward, with this rank's logits [..., ceil(v / t)]. Loss and log_sum_exp are
/// the same on all ranks. Columns that only fill up take no part.
[[nodiscard]] CrossEntropyOutput vocab_parallel_cross_entropy_forward(Runtime& runtime,
                                                                      TensorParallel& parallel,
                                                                      const Tensor& logits,
                                                                      const Tensor& targets,
                                                                      const VocabPart& part);

/// The rows of rank `rank` of t of a vocabulary whose parts are padded to equal size.
[[nodiscard]] VocabPart vocab_part(std::int64_t vocab_size, int t, int rank);

}  // namespace shardsim
