#pragma once

#include <iosfwd>
#include <optional>

#include "sim/explore/explore_arguments.hpp"
#include "sim/explore/shrink_scenario.hpp"
#include "sim/run/run.hpp"

// The parts of `shardsim run` for schedules.
namespace shardsim {

inline constexpr const char* kShrunkFile = "shrunk.json";

struct ExploredRun {
  RunOutcome outcome;
  std::optional<Schedule> schedule;  ///< The outcome's; empty for the plain run.
};

/// Explores, replays, or runs plainly, as the arguments ask. Throws UsageError for a token that
/// does not fit.
[[nodiscard]] ExploredRun run_as_asked(const Experiment& experiment, const RunHooks& hooks,
                                       const ExploreArguments& arguments);

/// Describes `shrunk`, with the command that runs it and the result of that; writes it to
/// arguments.shrunk_directory, if that is not empty. `code`: the failure's.
void report_shrunk(const ShrunkScenario& shrunk, const FailedScenario& failed,
                   const ExploreArguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace shardsim
