#include "sim/explore/shrink_scenario.hpp"

#include <utility>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "scenarios/load.hpp"
#include "sim/explore/scenario_explorer.hpp"

namespace shardsim {

namespace {

// A failure that needs luck gets this many drawn schedules in each smaller scenario.
constexpr int kDrawn = 6;

std::string field_of(const std::string& override_text) {
  return override_text.substr(0, override_text.find('='));
}

struct Attempt {
  RunOutcome outcome;
  std::optional<Schedule> schedule;
  int runs = 0;
};

Attempt attempt(const Experiment& experiment, const FailedScenario& failed, const RunHooks& hooks) {
  if (!failed.schedule) return {run_experiment(experiment, hooks), std::nullopt, 1};
  ScenarioExplorer explorer(experiment, hooks);
  Attempt made = {explorer.verdict(*failed.schedule), failed.schedule, 0};
  // Another number of ranks may need another order.
  if (failed.schedule->seed != 0 && failure_code(made.outcome.result) != failed.code) {
    made.outcome = explorer.explore({.mode = "pct", .schedules = kDrawn});
    made.schedule = explorer.last_schedule();
  }
  made.runs = explorer.num_runs();
  return made;
}

}  // namespace

ScenarioShrinker::ScenarioShrinker(FailedScenario failed, RunHooks hooks)
    : failed_(std::move(failed)), hooks_(std::move(hooks)) {
  found_.scenario = failed_.scenario;
  found_.overrides = failed_.overrides;
  found_.schedule = failed_.schedule;
}

ShrunkScenario ScenarioShrinker::shrink() {
  bool went_on = true;
  while (went_on && found_.runs < kMostRuns) {
    went_on = false;
    for (const std::string& field : shrinkable_fields()) {
      while (shrink_field(field)) went_on = true;
    }
  }
  found_.is_complete = found_.runs < kMostRuns;
  return std::move(found_);
}

bool ScenarioShrinker::shrink_field(const std::string& field) {
  for (const SmallerScenario& ways : smaller_values(found_.scenario, field)) {
    for (const FieldChanges& way : ways) {
      if (found_.runs >= kMostRuns) return false;
      try {
        Scenario smaller = load_scenario(failed_.file, overrides_with(way));
        if (accept(way, std::move(smaller))) return true;
        break;  // It loads: more overrides would change nothing.
      } catch (const Error&) {
        continue;  // No scenario, or none that can be run.
      }
    }
  }
  return false;
}

bool ScenarioShrinker::accept(const FieldChanges& changes, Scenario smaller) {
  Attempt made = attempt(compile(smaller), failed_, hooks_);
  found_.runs += made.runs;
  if (failure_code(made.outcome.result) != failed_.code) return false;
  found_.overrides = overrides_with(changes);
  for (const auto& [field, value] : changes) changes_[field] = value;
  found_.scenario = std::move(smaller);
  found_.outcome = std::move(made.outcome);
  found_.schedule = made.schedule;
  failed_.schedule = made.schedule;
  found_.is_smaller = true;
  return true;
}

std::vector<std::string> ScenarioShrinker::overrides_with(const FieldChanges& changes) const {
  FieldChanges all = changes_;
  for (const auto& [field, value] : changes) all[field] = value;
  std::vector<std::string> overrides;
  for (const std::string& given : failed_.overrides) {
    if (all.find(field_of(given)) == all.end()) overrides.push_back(given);
  }
  for (const auto& [field, value] : all) overrides.push_back(fmt::format("{}={}", field, value));
  return overrides;
}

}  // namespace shardsim
