#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/experiment/experiment.hpp"
#include "sim/run/run.hpp"

#include "sim/harness/schedule.hpp"

// Runs one scenario under many schedules and judges each run, for `shardsim run --explore` and
// `--replay`. A verdict is a function of the scenario, the hooks and the schedule, though it may
// need several runs.
//
// Tokens of runs name the scenario, with a hash of everything in it that affects a run, so that a
// token of another scenario is refused.
namespace shardsim {

/// The options of `shardsim run` for schedules.
struct ExploreArguments {
  std::string mode;    ///< "pct" or "dpor"; empty: no exploration.
  int schedules = 20;  ///< pct: the number of drawn schedules.
  /// pct: events whose order matters, for receives from any source; strategies have none.
  int depth = 2;
  std::uint64_t seed = 1;             ///< pct: the seed of the draws.
  std::optional<std::string> replay;  ///< The token of the one run to make.
  bool replay_force = false;          ///< Accept a token of another build.
  bool shrink = false;                ///< Look for a smaller scenario that fails the same way.
  /// The folder for the smaller scenario; empty: it is only printed.
  std::string shrunk_directory;

  /// Whether the run is not the plain one.
  [[nodiscard]] bool is_asked() const { return !mode.empty() || replay; }
};

/// The token that makes this run again. The scenario's output files do not matter for it.
[[nodiscard]] ReplayToken token_of(const Experiment& experiment, const Schedule& schedule);

/// The schedule of a token of this scenario. Throws UsageError: E1201 and E1202 as parse_token does
/// (`force`: not the latter), E1203 for the token of another scenario.
[[nodiscard]] Schedule schedule_of(const std::string& text, const Experiment& experiment,
                                   bool force);

/// "rendezvous sends"; "drawn sends, order drawn from 17": all parts of a scenario's schedule.
[[nodiscard]] std::string describe(const Schedule& schedule);

class ScenarioExplorer {
 public:
  /// `given` must outlive it. Runs are watched; the schedule in `hooks` is ignored.
  ScenarioExplorer(const Experiment& given, RunHooks hooks);

  /// Runs under `schedule`. The outcome has the error, with schedule and token. The error is a
  /// diagnosis (BUFFER_HAZARD, SCHEDULE_DEPENDS, or the run's own), or a failed check "schedules"
  /// beside the one that failed.
  RunOutcome verdict(const Schedule& schedule);
  /// Tries schedules until one is wrong. The outcome is that one's, or that of the plain run, with
  /// a passed check "schedules" that describes the proven property.
  RunOutcome explore(const ExploreArguments& arguments);
  /// verdict(), with a check "schedules" in any case.
  RunOutcome replay(const Schedule& schedule);

  [[nodiscard]] int num_runs() const { return num_runs_; }
  /// The schedule of the last requested verdict: the one that explore() has found.
  [[nodiscard]] const Schedule& last_schedule() const { return last_schedule_; }

 private:
  RunOutcome run(const Schedule& schedule);
  /// The result under the schedule without draws.
  const Result& plain(SendMode sends);
  void judge(const Schedule& schedule, RunOutcome& outcome);
  void compare_with_plain(const Schedule& schedule, RunOutcome& outcome);
  void note_warnings(const Result& result);
  [[nodiscard]] std::string token(const Schedule& schedule) const;

  const Experiment& given_;
  // The scenario may ask for buffered sends; here each run's schedule decides.
  const Experiment experiment_;
  RunHooks hooks_;
  std::map<SendMode, Result> plain_;
  std::vector<std::string> warnings_;  // Warnings of all runs, each once.
  Schedule last_schedule_;
  int num_runs_ = 0;
};

/// The code of a run's error: the diagnosis's, or the name of the failed check. Empty if there is
/// none, or only a failed expectation.
[[nodiscard]] std::string failure_code(const Result& result);

}  // namespace shardsim
