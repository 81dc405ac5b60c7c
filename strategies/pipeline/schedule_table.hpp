#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "strategies/pipeline/schedule.hpp"

// Private to strategies/pipeline: what a row of the table of schedules says, and the functions the
// rows name. Each function returns one rank's compute actions, is defined in the file named after
// it, and may rely on the shape being one that its row allows.
namespace shardsim {

inline constexpr int kAnyNumChunks = std::numeric_limits<std::int16_t>::max();

struct ScheduleRow {
  std::string_view name;
  std::string_view summary;
  Placement placement;
  int max_chunks;
  bool whole_rounds;  ///< Needs M % p == 0.
  std::vector<Action> (*actions_of_rank)(const PipelineShape& shape, int rank);
  /// Null: kTwoSends.
  int (*sends_in_flight)(const PipelineShape& shape) = nullptr;
};

/// Forwards of a whole pipeline: 2^24 are some 400 MiB of actions, and far beyond any real step.
inline constexpr std::int64_t kMaxForwards = std::int64_t{1} << 24;

/// Whether p * V * M is at most that. REQUIRES: none of them is negative.
[[nodiscard]] constexpr bool fits_into_memory(const PipelineShape& shape) {
  const std::int64_t stages = std::int64_t{shape.num_ranks} * shape.num_chunks;
  return stages <= kMaxForwards && stages * shape.num_microbatches <= kMaxForwards;
}

std::vector<Action> gpipe(const PipelineShape& shape, int rank);
std::vector<Action> one_forward_one_backward(const PipelineShape& shape, int rank);
std::vector<Action> interleaved(const PipelineShape& shape, int rank);
std::vector<Action> looped_bfs(const PipelineShape& shape, int rank);
int looped_bfs_sends_in_flight(const PipelineShape& shape);
std::vector<Action> zero_bubble_h1(const PipelineShape& shape, int rank);

}  // namespace shardsim
