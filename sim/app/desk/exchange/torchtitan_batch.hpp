#pragma once

#include <cstdint>
#include <optional>

#include "sim/app/desk/exchange/foreign_object.hpp"
#include "sim/app/desk/exchange/import.hpp"

// Sequence length and batch of torchtitan's training section, under the names it has had: until
// 2026 seq_len, local_batch_size and global_batch_size, in sequences; since then
// max_context_length, num_tokens_per_microbatch_per_dp_rank and num_tokens_per_train_step.
namespace shardsim {

/// Nothing where it is -1, too, torchtitan's word for "what is left".
[[nodiscard]] std::optional<std::int64_t> integer_unless_rest(ForeignObject& section,
                                                              const char* key,
                                                              const ForeignRange& range);

/// In sequences.
struct TitanBatch {
  std::optional<std::int64_t> local;  ///< Of a data-parallel rank at a time, all microbatches.
  std::optional<std::int64_t> micro;  ///< Where the file counts tokens.
  std::optional<std::int64_t> global;
};

/// Writes model.seq_len, if the file says it. Throws ScenarioError E1376: a key stands there under
/// both names; tokens are no whole sequences.
[[nodiscard]] TitanBatch read_titan_batch(ForeignObject& training, Import& import);

/// Throws ScenarioError E1376: the global batch is not cut evenly by `data` data-parallel ranks.
void write_titan_batch(ForeignObject& training, ForeignObject& parallelism, const TitanBatch& batch,
                       std::int64_t data, Import& import);

}  // namespace shardsim
