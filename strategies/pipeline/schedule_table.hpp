#pragma once

#include <limits>
#include <string_view>
#include <vector>

#include "strategies/pipeline/schedule_size.hpp"

// Private to strategies/pipeline: what a row of the table of schedules says, and the functions the
// rows name. A function returns the compute actions of one rank or, where ranks cannot be written
// down alone, of all. It is defined in the file named after it, and may rely on the shape being one
// that its row allows.
namespace shardsim {

inline constexpr int kAnyNumChunks = std::numeric_limits<std::int16_t>::max();

struct ScheduleRow {
  std::string_view name;
  std::string_view summary;
  Placement placement = Placement::loop;
  int min_chunks = 1;
  int max_chunks = 1;
  bool whole_rounds = false;  ///< Needs M % p == 0.
  /// One of the two.
  std::vector<Action> (*actions_of_rank)(const PipelineShape& shape, int rank) = nullptr;
  std::vector<std::vector<Action>> (*actions_of_all)(const PipelineShape& shape) = nullptr;
  /// The fewest microbatches it runs; null: 1.
  int (*min_microbatches)(const PipelineShape& shape) = nullptr;
  /// Null: kTwoSends.
  int (*sends_in_flight)(const PipelineShape& shape) = nullptr;
};

std::vector<Action> gpipe(const PipelineShape& shape, int rank);
std::vector<Action> one_forward_one_backward(const PipelineShape& shape, int rank);
std::vector<Action> interleaved(const PipelineShape& shape, int rank);
std::vector<Action> looped_bfs(const PipelineShape& shape, int rank);
int looped_bfs_sends_in_flight(const PipelineShape& shape);
std::vector<Action> zero_bubble_h1(const PipelineShape& shape, int rank);
std::vector<Action> zero_bubble_h2(const PipelineShape& shape, int rank);
std::vector<Action> zero_bubble_v(const PipelineShape& shape, int rank);
std::vector<std::vector<Action>> v_half(const PipelineShape& shape);
std::vector<std::vector<Action>> v_min(const PipelineShape& shape);
std::vector<Action> dualpipe_v(const PipelineShape& shape, int rank);

}  // namespace shardsim
