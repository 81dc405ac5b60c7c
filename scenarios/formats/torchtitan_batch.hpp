#pragma once

#include <cstdint>
#include <optional>

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/import.hpp"

// Sequence length and batch of torchtitan's training section, under old and new names. Until 2026
// these are seq_len, local_batch_size and global_batch_size, in sequences; since then
// max_context_length, num_tokens_per_microbatch_per_dp_rank and num_tokens_per_train_step.
namespace shardsim {

/// Nothing also for -1, torchtitan's word for "the rest".
[[nodiscard]] std::optional<std::int64_t> integer_unless_rest(ForeignObject& section,
                                                              const char* key,
                                                              const ForeignRange& range);

/// In sequences.
struct TitanBatch {
  std::optional<std::int64_t> local;  ///< That of a data-parallel rank at a time, all microbatches.
  std::optional<std::int64_t> micro;  ///< Set if the file counts tokens.
  std::optional<std::int64_t> global;
};

/// Writes model.seq_len, if the file gives it. Throws ScenarioError E1376: the file has a key under
/// both names, or tokens are no whole sequences.
[[nodiscard]] TitanBatch read_titan_batch(ForeignObject& training, Import& import);

/// Throws ScenarioError E1376: `data` data-parallel ranks do not divide the global batch.
void write_titan_batch(ForeignObject& training, ForeignObject& parallelism, const TitanBatch& batch,
                       std::int64_t data, Import& import);

}  // namespace shardsim
