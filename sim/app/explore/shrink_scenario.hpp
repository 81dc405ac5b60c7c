#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scenarios/scenario.hpp"
#include "sim/app/explore/explore_arguments.hpp"
#include "sim/app/explore/smaller_values.hpp"
#include "sim/app/run.hpp"

#include "sim/harness/schedule.hpp"

// From a scenario that fails to a smaller one that fails with the same code.
namespace shardsim {

/// Where a search starts.
struct FailedScenario {
  std::string file;
  std::vector<std::string> overrides;  ///< As given to --set.
  Scenario scenario;
  std::string code;  ///< As failure_code has it.
  /// Of the run that failed; empty: the plain run, which is not watched.
  std::optional<Schedule> schedule;
};

struct ShrunkScenario {
  Scenario scenario;
  std::vector<std::string> overrides;  ///< All that the file needs to be it.
  RunOutcome outcome;                  ///< Of the smallest that failed; empty if none did.
  std::optional<Schedule> schedule;    ///< With which it did.
  int runs = 0;
  bool is_smaller = false;
  bool is_complete = false;  ///< Nothing smaller fails; else the runs were used up.
};

/// Makes one field smaller after the other, as long as the failure stays, until none can be. What
/// does not load as a scenario is passed over.
class ScenarioShrinker {
 public:
  /// So many runs at most, and those of one last candidate.
  static constexpr int kMostRuns = 200;

  ScenarioShrinker(FailedScenario failed, RunHooks hooks);
  [[nodiscard]] ShrunkScenario shrink();

 private:
  bool shrink_field(const std::string& field);
  bool accept(const FieldChanges& changes, Scenario smaller);
  [[nodiscard]] std::vector<std::string> overrides_with(const FieldChanges& changes) const;

  FailedScenario failed_;
  RunHooks hooks_;
  FieldChanges changes_;  // Against the file and what was given to --set.
  ShrunkScenario found_;
};

}  // namespace shardsim
