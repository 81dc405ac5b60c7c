#pragma once

#include "strategies/model/embedding.hpp"
#include "strategies/model/loss.hpp"
#include "strategies/sharding/tensor_parallel.hpp"

// The cross entropy of logits that are cut along the vocabulary. The logits of all classes, often
// the largest tensor of a step, are never brought together: three numbers per row are.
// Source: Shoeybi et al., "Megatron-LM" (2019), section 3.
namespace shardsim {

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
