#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/sweep_block.hpp"

// What a sweep consists of: its points, numbered from 0, and what each changes in the scenario.
namespace shardsim {

/// As the command line gives it.
struct SweepRequest {
  std::string file;
  std::vector<std::string> overrides;  ///< "a.b=value" each, of --set.
  std::vector<std::string> axes;       ///< "a.b=1,2,4" each, of --axis.
};

struct SweepPlan {
  std::string file;
  std::string text;  ///< Of the file, with an empty sweep: every point reads it again.
  std::vector<std::string> overrides;
  std::vector<std::string> axis_flags;
  SweepBlock block;
  std::vector<std::string> columns;  ///< Paths of all axes, in order.
  std::size_t num_points = 0;
  /// 16 hexadecimal digits that stand for the scenario, its axes and this version. What is skipped
  /// and what is best may change without making another sweep of it.
  std::string hash;
};

/// Throws ScenarioError for what is wrong with the file, the block or an axis, and UsageError where
/// there is nothing to vary (E1307).
[[nodiscard]] SweepPlan load_sweep(const SweepRequest& request);

/// What point `number` has on each column, as JSON texts. The last dimension varies fastest.
/// REQUIRES: number < num_points.
[[nodiscard]] std::vector<std::string> values_of(const SweepPlan& plan, std::size_t number);

/// The flags that make the point of the file: --set, then its values.
[[nodiscard]] std::vector<std::string> overrides_of(const SweepPlan& plan, std::size_t number);

}  // namespace shardsim
