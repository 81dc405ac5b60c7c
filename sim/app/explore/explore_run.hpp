#pragma once

#include <iosfwd>
#include <optional>

#include "sim/app/explore/explore_arguments.hpp"
#include "sim/app/explore/shrink_scenario.hpp"
#include "sim/app/run.hpp"

// The parts of `shardsim run` that are about schedules.
namespace shardsim {

inline constexpr const char* kShrunkFile = "shrunk.json";

struct ExploredRun {
  RunOutcome outcome;
  std::optional<Schedule> schedule;  ///< Of the outcome; empty for the plain run.
};

/// Explores, replays, or runs plainly: what the arguments ask for. Throws UsageError for a token
/// that does not fit.
[[nodiscard]] ExploredRun run_as_asked(const Experiment& experiment, const RunHooks& hooks,
                                       const ExploreArguments& arguments);

/// Says what `shrunk` is, with the command that runs it and what that finds; writes it to
/// arguments.shrunk_directory, if that is not empty. `code`: of the failure.
void report_shrunk(const ShrunkScenario& shrunk, const FailedScenario& failed,
                   const ExploreArguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace shardsim
