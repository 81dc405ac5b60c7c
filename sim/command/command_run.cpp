#include "sim/command/command_run.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "reports/csv_tables.hpp"
#include "reports/json_writer.hpp"
#include "reports/pages.hpp"
#include "reports/result.hpp"
#include "reports/text_summary.hpp"
#include "reports/trace_writers.hpp"
#include "scenarios/load.hpp"
#include "sim/command/shared_options.hpp"
#include "sim/command/verbs.hpp"
#include "sim/console/junit.hpp"
#include "sim/console/output_format.hpp"
#include "sim/console/output_paths.hpp"
#include "sim/console/progress.hpp"
#include "sim/console/shell_word.hpp"
#include "sim/console/whole_file.hpp"
#include "sim/experiment/experiment.hpp"
#include "sim/explore/explore_run.hpp"
#include "sim/explore/scenario_explorer.hpp"
#include "sim/real/run_ranks.hpp"
#include "sim/run/decision_file.hpp"
#include "sim/run/detail/detail_of.hpp"
#include "sim/run/run.hpp"

namespace shardsim {

namespace {

constexpr const char* kOtherwise = "choose another with --out, or with the option that names it";

void write_file(const std::filesystem::path& path, const std::string& text, bool quiet,
                std::ostream& err) {
  write_complete(path, text, kOtherwise);
  if (!quiet) tell_written(path, err);
}

// Writes a file that the scenario names, below the folder that the command names.
void write_output(const RunArguments& arguments, const std::string& name, const std::string& text,
                  std::ostream& err) {
  if (name.empty()) return;
  write_file(std::filesystem::path(arguments.out_directory) / name, text, arguments.quiet, err);
}

// "run.csv" and, beside it, "run.stages.csv" and its like.
void write_csv(const RunArguments& arguments, const std::string& name, const RunOutcome& outcome,
               std::ostream& err) {
  if (name.empty()) return;
  write_output(arguments, name, metrics_csv(outcome.result), err);
  if (!outcome.detail) return;
  for (const CsvTable& table : csv_tables(*outcome.detail)) {
    write_output(arguments, table_beside(name, table.name), table.text, err);
  }
}

void write_pages(const RunArguments& arguments, const Experiment& experiment,
                 const RunOutcome& outcome, std::ostream& err) {
  const OutputSpec& output = experiment.scenario().output;
  const RunDetail* const detail = outcome.detail ? &*outcome.detail : nullptr;
  if (!output.report.empty()) {
    // The report of a failed run says why it failed.
    write_file(report_path(arguments, output),
               to_html(outcome.result, headline_of(experiment), detail ? *detail : RunDetail()),
               arguments.quiet, err);
  }
  if (!output.markdown.empty()) {
    write_output(arguments, output.markdown,
                 to_markdown(outcome.result, headline_of(experiment), detail), err);
  }
  write_csv(arguments, output.csv, outcome, err);
}

void write_record(const RunArguments& arguments, const Experiment& experiment,
                  const RunOutcome& outcome, std::ostream& err) {
  if (!arguments.record_decisions) return;
  if (!outcome.decisions) {
    err << "no record written: the run did not finish\n";
    return;
  }
  write_file(*arguments.record_decisions, to_text(*outcome.decisions, experiment), arguments.quiet,
             err);
}

std::optional<DecisionLog> replayed_record(const RunArguments& arguments,
                                           const Experiment& experiment) {
  if (arguments.record_decisions && !experiment.world().has_data) {
    throw UsageError("E0907", "a run without real tensors decides nothing that could be recorded",
                     "use --set execution.tensors=real, or leave --record-decisions out");
  }
  if (!arguments.replay_decisions) return std::nullopt;
  return read_decisions(*arguments.replay_decisions, experiment);
}

void refuse_schedules_of_processes(const RunArguments& arguments) {
  if (!arguments.process.on_processes()) return;
  if (!arguments.explore.is_asked() && !arguments.explore.shrink) return;
  throw UsageError("E1204", "schedules are explored, replayed and shrunk in memory only",
                   "leave --backend out: what fails there can be run on processes afterwards");
}

// The failed scenario, if --shrink was given. The runs of shrinking count as progress of this one.
std::optional<FailedScenario> to_be_shrunk(const RunArguments& arguments,
                                           const Experiment& experiment, const ExploredRun& run) {
  std::string code = failure_code(run.outcome.result);
  if (!arguments.explore.shrink || code.empty()) return std::nullopt;
  return FailedScenario{.file = arguments.file,
                        .overrides = arguments.overrides,
                        .scenario = experiment.scenario(),
                        .code = std::move(code),
                        .schedule = run.schedule};
}

void add_fingerprint_option(CLI::App& verb, ProcessOptions& process) {
  verb.add_option_function<std::string>(
          "--check", [&process](const std::string&) { process.check_fingerprints = true; },
          "fingerprint: compare the calls of all ranks of a real run before they hang")
      ->check(CLI::IsMember({"fingerprint"}));
}

void add_run_options(CLI::App& verb, RunArguments& arguments) {
  verb.add_option("file", arguments.file, "Scenario file; - reads standard input")->required();
  verb.add_option("--set", arguments.overrides, "Override a field: a.b=value; repeatable")
      ->allow_extra_args(false);
  add_process_options(verb, arguments.process);
  add_fingerprint_option(verb, arguments.process);
  verb.add_option("--out", arguments.out_directory, "Folder for the files a scenario names")
      ->each([&explore = arguments.explore](const std::string& folder) {
        explore.shrunk_directory = folder;
      });
  add_explore_options(verb, arguments.explore);
  // Not bound as optionals: for those CLI11 takes an empty value for none.
  const auto add_path = [&verb](const char* name, std::optional<std::string>& path,
                                const char* help) {
    verb.add_option_function<std::string>(
        name, [&path](const std::string& given) { path = given; }, help);
  };
  add_path("--report", arguments.report, "Write the report page (HTML) to this file");
  add_path("--trace", arguments.trace,
           "Write the trace to this file: .json for Chrome's form, else Perfetto's");
  add_path(
      "--record-decisions", arguments.record_decisions,
      "Write the decisions that a run with real tensors made on values; the path is relative to "
      "the current folder");
  add_path(
      "--replay-decisions", arguments.replay_decisions,
      "Use these decisions in a run without data, instead of the assumptions of a plan; the path "
      "is relative to the current folder");
  add_path(
      "--dump-state", arguments.dump_state,
      "Write the state before the first step and after each, as safetensors, to a new or empty "
      "folder; real tensors only");
  verb.add_option("--jobs,-j", arguments.jobs, "Number of parallel draws of faults (one per core)")
      ->check(CLI::Range(1, 4096));
  verb.add_flag("--assumptions", arguments.assumptions,
                "List every number and simplification behind the result, with its source");
  add_output_format(verb, arguments.json, arguments.annotations,
                    "Print the result object instead of the summary", &arguments.junit);
  verb.add_flag("-q,--quiet", arguments.quiet, "Print nothing unless something is wrong");
}

Scenario loaded_scenario(const RunArguments& arguments) {
  if (!arguments.text) return load_scenario(arguments.file, arguments.overrides);
  if (arguments.process.on_processes()) {
    throw UsageError("E0914", "processes cannot all read the scenario from standard input",
                     "write it to a file");
  }
  return load_scenario_text(*arguments.text, arguments.file, arguments.overrides);
}

// The run collects what the files of options need, too.
Scenario scenario_of(const RunArguments& arguments) {
  Scenario scenario = loaded_scenario(arguments);
  if (arguments.report) scenario.output.report = *arguments.report;
  if (arguments.trace) scenario.output.trace = *arguments.trace;
  return scenario;
}

constexpr std::string_view kBeforeCommand = "  Next: ";

// The command of this run with one more or one different override.
std::string with(const RunArguments& arguments, const std::string& change) {
  std::vector<std::string> overrides = arguments.overrides;
  std::erase_if(overrides, [&](const std::string& text) {
    return overridden_field(text) == overridden_field(change);
  });
  overrides.push_back(change);
  return command_line(arguments.file, overrides);
}

// The last line of a run's page: the command that continues from the run, with its overrides. Empty
// if nothing can be run: standard input cannot be read again.
std::string next_command(const RunArguments& arguments, const Experiment& experiment,
                         const Result& result) {
  const Scenario& scenario = experiment.scenario();
  if (result.diagnosis) return fmt::format("shardsim explain {}", result.diagnosis->code);
  if (result.exit_code == 0 && !arguments.next_command.empty()) return arguments.next_command;
  if (arguments.file == kStandardInput) return "";
  if (result.exit_code == static_cast<int>(ExitCode::does_not_fit)) {
    return scenario.parallelism.zero_stage < 3
               ? with(arguments, "parallelism.zero_stage=3")
               : with(arguments, fmt::format("system.nodes={}", 2 * scenario.system.nodes));
  }
  if (scenario.output.trace.empty()) return with(arguments, "output.trace=step.pftrace");
  return command_line(arguments.file, arguments.overrides) + " --json";
}

void print_result(const RunArguments& arguments, const Experiment& experiment, const Result& result,
                  const std::string& json, std::ostream& out, std::ostream& err) {
  if (arguments.json) {
    out << json;
    return;
  }
  if (arguments.junit) {
    const std::vector<JunitCase> cases = cases_of(result, arguments.file);
    out << junit_xml("shardsim run", cases);
    tell_failures(cases, err);
    return;
  }
  if (!arguments.quiet || result.exit_code != 0) {
    const std::string next = next_command(arguments, experiment, result);
    out << to_text(result, headline_of(experiment),
                   {.color = arguments.color,
                    .width = static_cast<int>(arguments.width),
                    .next_command = next});
    // A page cuts text wider than itself, so such a command is printed once more, whole.
    const bool is_cut = kBeforeCommand.size() + next.size() > arguments.width;
    if (!arguments.quiet && is_cut) err << "next, in full: " << next << "\n";
  }
  if (arguments.assumptions) out << assumptions_text(result, arguments.width);
  if (arguments.annotations) out << annotations_of(result, arguments.file);
}

}  // namespace

int command_run(const RunArguments& arguments, std::ostream& out, std::ostream& err,
                RunHooks hooks) {
  refuse_schedules_of_processes(arguments);
  const Experiment experiment = compile(scenario_of(arguments));
  const OutputSpec& output = experiment.scenario().output;
  check_run_paths(arguments, experiment);
  std::optional<DumpFolder> dump = dump_folder_of(arguments, experiment);
  if (dump) hooks.write_state = dump->writer();
  Progress progress(err, !arguments.quiet);
  hooks.on_progress = [&progress] { progress.tick(); };
  hooks.in_parallel = [&](std::size_t count, const std::function<void(std::size_t)>& body) {
    run_parallel(count, arguments.jobs,
                 {.body = body, .finished = [&](std::size_t) { progress.tick(); }, .stop = {}});
  };
  const std::optional<DecisionLog> replay = replayed_record(arguments, experiment);
  if (replay) hooks.replay = &*replay;
  ExploredRun explored;
  RunOutcome& outcome = explored.outcome;
  if (arguments.process.on_processes()) {
    ProcessOutcome run =
        run_on_processes(experiment, hooks, arguments.process, arguments.out_directory, err);
    if (!run.reports) return run.exit_code;  // Another process does.
    outcome = std::move(run.outcome);
  } else {
    explored = run_as_asked(experiment, hooks, arguments.explore);
  }
  const std::optional<FailedScenario> failed = to_be_shrunk(arguments, experiment, explored);
  std::optional<ShrunkScenario> shrunk;
  if (failed) shrunk = shrink(*failed, hooks);
  progress.done();
  const std::string json = to_json(outcome.result);
  print_result(arguments, experiment, outcome.result, json, out, err);
  // A reader of JSON gets one object.
  if (shrunk) report_shrunk(*shrunk, *failed, arguments.explore, arguments.json ? err : out, err);
  write_output(arguments, output.result, json, err);
  const bool chrome = output.trace.ends_with(".json");
  if (!output.trace.empty()) {
    write_file(trace_path(arguments, output),
               chrome ? to_chrome_json(outcome.traces) : to_perfetto(outcome.traces),
               arguments.quiet, err);
  }
  write_pages(arguments, experiment, outcome, err);
  write_record(arguments, experiment, outcome, err);
  if (dump && !arguments.quiet) dump->tell(err);
  return outcome.result.exit_code;
}

Verb run_verb() {
  return with_arguments<RunArguments>(
      {.name = "run",
       .summary = "Simulate a scenario (the default verb)",
       .group = VerbGroup::run,
       .examples = {{"shardsim scenarios/quickstart.json", "what a training step costs"},
                    {"shardsim scenarios/quickstart.json --set system.preset=dgx-b200",
                     "the same on other machines"},
                    {"shardsim scenarios/quickstart.json --report step.html --trace step.pftrace",
                     "with its page, and a trace for ui.perfetto.dev"},
                    {"shardsim scenarios/quickstart.json --json", "for programs"}}},
      add_run_options, [](RunArguments& arguments, const Console& console) {
        arguments.color = console.color;
        arguments.width = console.width;
        if (arguments.file == kStandardInput) arguments.text = read_standard_input(console.in);
        arguments.process.words = console.words;
        return command_run(arguments, console.out, console.err, console.hooks);
      });
}

}  // namespace shardsim
