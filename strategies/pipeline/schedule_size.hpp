#pragma once

#include <cstdint>

#include "strategies/pipeline/schedule.hpp"

// How large a pipeline schedule may be, for those who want to know before one is made.
namespace shardsim {

/// Forwards of a whole pipeline: 2^24 are some 400 MiB of actions, and far beyond any real step.
inline constexpr std::int64_t kMaxForwards = std::int64_t{1} << 24;

/// Whether p * V * M is at most that. REQUIRES: none of them is negative.
[[nodiscard]] constexpr bool fits_into_memory(const PipelineShape& shape) {
  const std::int64_t stages = std::int64_t{shape.num_ranks} * shape.num_chunks;
  return stages <= kMaxForwards && stages * shape.num_microbatches <= kMaxForwards;
}

}  // namespace shardsim
