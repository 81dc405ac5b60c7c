#include "sim/explore/explore_run.hpp"

#include <filesystem>
#include <ostream>

#include <fmt/format.h>

#include "sim/console/shell_word.hpp"
#include "sim/console/write_text.hpp"
#include "sim/explore/scenario_explorer.hpp"
#include "sim/explore/scenario_token.hpp"

namespace shardsim {

namespace {

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
