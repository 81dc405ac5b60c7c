#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/scenario.hpp"
#include "sim/explore/scenario_explorer.hpp"
#include "sim/run/run.hpp"

#include "sim/harness/schedule.hpp"

// The parts of `shardsim run` for schedules: exploration, and shrinking a scenario that fails to a
// smaller one that fails with the same code.
namespace shardsim {

/// The start of a search.
struct FailedScenario {
  std::string file;
  std::vector<std::string> overrides;  ///< As given to --set.
  Scenario scenario;
  std::string code;  ///< As failure_code returns it.
  /// The failed run's; empty: the plain run, which is not watched.
  std::optional<Schedule> schedule;
};

struct ShrunkScenario {
  Scenario scenario;
  std::vector<std::string> overrides;  ///< All that turn the file into it.
  RunOutcome outcome;                  ///< The smallest failed run's; empty if none failed.
  std::optional<Schedule> schedule;    ///< The schedule of that run.
  int runs = 0;
  bool is_smaller = false;
  bool is_complete = false;  ///< Nothing smaller fails; else the runs were used up.
};

/// Makes one field smaller after the other, as long as the failure stays, until none can be.
/// Candidates that do not load as a scenario are skipped. It ends after 200 runs, and those of one
/// last candidate.
[[nodiscard]] ShrunkScenario shrink(FailedScenario failed, RunHooks hooks);

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
