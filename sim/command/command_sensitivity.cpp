#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "reports/pages.hpp"
#include "reports/sensitivity.hpp"
#include "reports/text_summary.hpp"
#include "reports/units.hpp"
#include "scenarios/load.hpp"
#include "sim/command/verbs.hpp"
#include "sim/console/output_paths.hpp"
#include "sim/console/parallel.hpp"
#include "sim/console/progress.hpp"
#include "sim/console/whole_file.hpp"
#include "sim/experiment/experiment.hpp"
#include "sim/run/detail/detail_of.hpp"
#include "sim/run/run.hpp"
#include "sim/run/sensitivity/sensitivity.hpp"

namespace shardsim {

namespace {

struct SensitivityArguments {
  std::string file;
  std::vector<std::string> overrides;  // "a.b=value" each.
  double by_percent = 10;
  std::string report;
  int jobs = default_jobs();
  bool json = false;
  bool quiet = false;
};

void add_sensitivity_options(CLI::App& verb, SensitivityArguments& arguments) {
  verb.add_option("file", arguments.file, "Scenario file; - reads standard input")->required();
  verb.add_option("--set", arguments.overrides, "Override a field: a.b=value; repeatable")
      ->allow_extra_args(false);
  verb.add_option("--by", arguments.by_percent, "Percent by which each quantity changes (10)")
      ->check(CLI::Range(0.1, 90.0));
  verb.add_option("--report", arguments.report,
                  "Write the run's page to this file, with the bars as a chart");
  verb.add_option("--jobs,-j", arguments.jobs, "Number of parallel runs (one per core)")
      ->check(CLI::Range(1, 4096));
  verb.add_flag("--json", arguments.json, "Print one JSON object");
  verb.add_flag("-q,--quiet", arguments.quiet, "Print no progress");
}

// `shardsim sensitivity FILE`: runs the scenario, and once more for each quantity with less and
// with more of it. Returns the exit code of the scenario's own run. Throws Error.
int command_sensitivity(const SensitivityArguments& arguments, const Console& console) {
  std::optional<std::string> text;
  if (arguments.file == kStandardInput) text = read_standard_input(console.in);
  const auto load = [&](const std::vector<std::string>& more) {
    std::vector<std::string> overrides = arguments.overrides;
    overrides.insert(overrides.end(), more.begin(), more.end());
    return text ? load_scenario_text(*text, arguments.file, overrides)
                : load_scenario(arguments.file, overrides);
  };
  Scenario scenario = load({});
  scenario.output = {};
  if (!arguments.report.empty()) {
    require_outputs(paths_read(scenario.files, arguments.file), {{"--report", arguments.report}});
  }
  const Experiment experiment = compile(scenario);
  Progress progress(console.err, !arguments.quiet);
  RunHooks hooks = console.hooks;
  hooks.on_progress = [&progress] { progress.tick(); };
  hooks.detail = !arguments.report.empty();
  RunOutcome outcome = run_experiment(experiment, hooks);
  const TextHeadline headline = headline_of(experiment);
  RunDetail detail = outcome.detail ? std::move(*outcome.detail) : RunDetail();
  if (!outcome.result.number(metric::kTokensPerS)) {
    progress.done();
    console.out << to_text(outcome.result, headline, {.color = console.color});
    return outcome.result.exit_code;
  }
  hooks.in_parallel = [&](std::size_t count, const std::function<void(std::size_t)>& body) {
    std::size_t done = 0;
    run_parallel(
        count, arguments.jobs,
        {.body = body, .finished = [&](std::size_t) { progress.tick(++done, count); }, .stop = {}});
  };
  detail.sensitivity =
      sensitivity_of(experiment, outcome.result, arguments.by_percent / kPercent, load, hooks);
  progress.done();
  console.out << (arguments.json ? sensitivity_json(outcome.result, detail)
                                 : sensitivity_text(outcome.result, headline, detail));
  if (!arguments.report.empty()) {
    write_text(arguments.report, to_html(outcome.result, headline, detail), console.err);
  }
  return outcome.result.exit_code;
}

}  // namespace

Verb sensitivity_verb() {
  return with_arguments<SensitivityArguments>(
      {.name = "sensitivity",
       .summary = "Show how a step depends on the GPU, its memory, its links and the batch",
       .examples = {{"shardsim sensitivity scenarios/quickstart.json",
                     "each quantity 10 % less and more: ten runs"},
                    {"shardsim sensitivity plan.json --by 25 --report plan.html",
                     "the page of the run, with a chart"}}},
      add_sensitivity_options, command_sensitivity);
}

}  // namespace shardsim
