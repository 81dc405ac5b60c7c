#include "sim/explore/explore_run.hpp"

#include <filesystem>
#include <ostream>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "scenarios/load.hpp"
#include "sim/console/shell_word.hpp"
#include "sim/console/whole_file.hpp"
#include "sim/explore/scenario_explorer.hpp"
#include "sim/explore/scenario_token.hpp"

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

std::string size_of_search(const ShrunkScenario& shrunk) {
  return shrunk.is_complete ? fmt::format("in {} runs; nothing smaller fails so", shrunk.runs)
                            : fmt::format("in {} runs, the most that are made", shrunk.runs);
}

std::string what_fails(const Result& result) {
  if (result.diagnosis) return result.diagnosis->to_text();
  std::string text;
  for (const Check& check : result.checks) {
    if (!check.passed) text += fmt::format("{}: {}\n", check.name, check.detail);
  }
  return text;
}

}  // namespace

// --- Shrinking ---------------------------------------------------------------------------------

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

// --- Running -----------------------------------------------------------------------------------

ExploredRun run_as_asked(const Experiment& experiment, const RunHooks& hooks,
                         const ExploreArguments& arguments) {
  if (!arguments.is_asked()) return {run_experiment(experiment, hooks), std::nullopt};
  ScenarioExplorer explorer(experiment, hooks);
  ExploredRun run;
  if (arguments.replay) {
    run.schedule = schedule_of(*arguments.replay, experiment, arguments.replay_force);
    run.outcome = explorer.replay(*run.schedule);
  } else {
    run.outcome = explorer.explore(arguments);
    run.schedule = explorer.last_schedule();
  }
  return run;
}

void report_shrunk(const ShrunkScenario& shrunk, const FailedScenario& failed,
                   const ExploreArguments& arguments, std::ostream& out, std::ostream& err) {
  if (!shrunk.is_smaller) {
    out << fmt::format("\nnot shrunk: nothing smaller that loads fails with {} ({} runs)\n",
                       failed.code, shrunk.runs);
    return;
  }
  std::string command = command_line(failed.file, shrunk.overrides);
  if (shrunk.schedule) {
    command += " --replay " + to_text(token_of(compile(shrunk.scenario), *shrunk.schedule));
  }
  out << fmt::format("\nshrunk from {} ranks to {}, {}:\n  {}\n\n{}", failed.scenario.system.ranks,
                     shrunk.scenario.system.ranks, size_of_search(shrunk), command,
                     what_fails(shrunk.outcome.result));
  if (arguments.shrunk_directory.empty()) return;
  const std::filesystem::path path =
      std::filesystem::path(arguments.shrunk_directory) / kShrunkFile;
  write_complete(path, shrunk.scenario.resolved_json + "\n", "choose another folder with --out");
  tell_written(path, err);
}

}  // namespace shardsim
