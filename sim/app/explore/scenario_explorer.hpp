#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/app/explore/explore_arguments.hpp"
#include "sim/app/run.hpp"

#include "sim/harness/schedule.hpp"

// Runs one scenario under many schedules and judges each run: what `shardsim run --explore` and
// `--replay` do. A verdict is a function of the scenario, the hooks and the schedule, though it may
// take more runs than one to tell.
namespace shardsim {

class ScenarioExplorer {
 public:
  /// `given` must outlive it. Runs are watched; the schedule in `hooks` is not looked at.
  ScenarioExplorer(const Experiment& given, RunHooks hooks);

  /// Runs under `schedule`. What is wrong stands in the outcome, with schedule and token: as its
  /// diagnosis (BUFFER_HAZARD, SCHEDULE_DEPENDS, or what the run itself reports), or as a failed
  /// check "schedules" beside the one that failed.
  RunOutcome verdict(const Schedule& schedule);
  /// Tries schedules until one is wrong. The outcome is that one's, or that of the plain run, with
  /// a passed check "schedules" that says what was proven.
  RunOutcome explore(const ExploreArguments& arguments);
  /// verdict(), with a check "schedules" in any case.
  RunOutcome replay(const Schedule& schedule);

  [[nodiscard]] int num_runs() const { return num_runs_; }
  /// Of the verdict that was asked for last: that of what explore() has found.
  [[nodiscard]] const Schedule& last_schedule() const { return last_schedule_; }

 private:
  RunOutcome run(const Schedule& schedule);
  /// Of the schedule in which nothing is drawn.
  const Result& plain(SendMode sends);
  void judge(const Schedule& schedule, RunOutcome& outcome);
  void compare_with_plain(const Schedule& schedule, RunOutcome& outcome);
  void note_warnings(const Result& result);
  [[nodiscard]] std::string token(const Schedule& schedule) const;

  const Experiment& given_;
  // The scenario may ask for buffered sends; here each run's schedule says.
  const Experiment experiment_;
  RunHooks hooks_;
  std::map<SendMode, Result> plain_;
  std::vector<std::string> warnings_;  // Of all runs, each once.
  Schedule last_schedule_;
  int num_runs_ = 0;
};

/// The code of what is wrong with a run: the diagnosis's, or the name of the check that failed.
/// Empty if nothing is, or nothing but an expectation.
[[nodiscard]] std::string failure_code(const Result& result);

}  // namespace shardsim
