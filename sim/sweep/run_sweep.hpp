#pragma once

#include <chrono>
#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>

#include "sim/run/run.hpp"
#include "sim/sweep/part_file.hpp"
#include "sim/sweep/shard.hpp"
#include "sim/sweep/sweep_plan.hpp"

// Computes the points of one shard that are not computed yet, and keeps each as it ends.
namespace shardsim {

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
