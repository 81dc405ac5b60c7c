#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "reports/run_detail.hpp"

// Pipeline stages that a reader cannot tell apart in a figure, as one row.
namespace shardsim {

/// Neighbours [first, last] of RunDetail::stages, shown with the numbers of the first.
struct StageGroup {
  std::size_t first = 0;
  std::size_t last = 0;
};

/// The largest difference within a group: this share of the step, or of the largest peak.
inline constexpr double kSameStage = 0.005;

/// Neighbours whose parts of the step each differ by at most kSameStage of the longest step.
[[nodiscard]] std::vector<StageGroup> groups_by_time(const std::vector<StageTime>& stages);

/// Neighbours whose memory at the peak differs by at most kSameStage of the largest, by category.
[[nodiscard]] std::vector<StageGroup> groups_by_memory(const std::vector<StageTime>& stages);

/// "stage 0", "stages 1 to 6". REQUIRES: a group of these stages.
[[nodiscard]] std::string name_of(const StageGroup& group, const std::vector<StageTime>& stages);

}  // namespace shardsim
