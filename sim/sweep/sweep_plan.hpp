#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/sweep_block.hpp"

// A sweep: its points, numbered from 0, and the changes that each makes to the scenario.
namespace shardsim {

/// As the command line gives it.
struct SweepRequest {
  std::string file;
  std::vector<std::string> overrides;  ///< "a.b=value" each, from --set.
  std::vector<std::string> axes;       ///< "a.b=1,2,4" each, from --axis.
};

struct SweepPlan {
  std::string file;
  std::string text;  ///< The file's text, with an empty sweep: every point reads it again.
  std::vector<std::string> overrides;
  std::vector<std::string> axis_flags;
  SweepBlock block;
  std::vector<std::string> columns;  ///< Paths of all axes, in order.
  std::size_t num_points = 0;
  /// 16 hexadecimal digits, the hash of the scenario, its axes and this version. A change of the
  /// skipped points or of the objectives does not make another sweep.
  std::string hash;
};

/// Throws ScenarioError for an error in the file, the block or an axis, and UsageError if there is
/// nothing to vary (E1307).
[[nodiscard]] SweepPlan load_sweep(const SweepRequest& request);

/// The values of point `number` in each column, as JSON texts. The last dimension varies fastest.
/// REQUIRES: number < num_points.
[[nodiscard]] std::vector<std::string> values_of(const SweepPlan& plan, std::size_t number);

/// The flags that turn the file into the point: --set, then its values.
[[nodiscard]] std::vector<std::string> overrides_of(const SweepPlan& plan, std::size_t number);

}  // namespace shardsim
