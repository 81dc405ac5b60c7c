#pragma once

#include <chrono>
#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/sweep_block.hpp"
#include "sim/run/run.hpp"
#include "sim/sweep/part_file.hpp"
#include "sim/sweep/shard.hpp"

// A sweep: its points, numbered from 0, and the changes that each makes to the scenario. Its run
// computes the points of one shard that are not computed yet, and keeps each as it ends.
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

struct SweepSetting {
  std::string folder;
  Shard shard;
  int jobs = 1;
  std::optional<std::chrono::seconds> time_limit;  ///< No point is started after it.
  bool quiet = false;
};

struct SweepOutcome {
  std::size_t share = 0;     ///< Points of this shard.
  std::size_t found = 0;     ///< Those of them that existed already.
  std::size_t computed = 0;  ///< Those that this process added.
  bool interrupted = false;
  bool out_of_time = false;

  [[nodiscard]] bool is_complete() const { return found + computed == share; }
};

/// The header of this sweep's part files.
[[nodiscard]] PartHeader header_of(const SweepPlan& plan, const std::string& folder);

/// Returns when the shard is complete, time is over, or a stop was requested (Ctrl-C, SIGTERM).
/// Started points are finished and kept in all three cases.
[[nodiscard]] SweepOutcome run_sweep(const SweepPlan& plan, const SweepSetting& setting,
                                     const RunHooks& hooks, std::ostream& err);

}  // namespace shardsim
