#include "sim/app/cli.hpp"

#include <algorithm>
#include <iostream>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "sim/kernel/error.hpp"
#include "sim/kernel/version.hpp"

#include "reports/result_schema.hpp"
#include "scenarios/describe.hpp"
#include "scenarios/presets.hpp"
#include "sim/app/calibrate/command_calibrate.hpp"
#include "sim/app/collective/command_collective.hpp"
#include "sim/app/command_doctor.hpp"
#include "sim/app/command_run.hpp"
#include "sim/app/command_schedule.hpp"
#include "sim/app/explore/command_explain.hpp"
#include "sim/app/explore/explore_options.hpp"
#include "sim/app/usage.hpp"
#include "sim/app/validate/command_validate.hpp"

namespace shardsim {

namespace {

constexpr const char* kExamples = R"(
Examples:
  shardsim scenarios/quickstart.json                     what a training step costs
  shardsim scenarios/verify-gpt-zero2.json               the same model as one device, proven
  shardsim scenarios/quickstart.json --set system.preset=dgx-b200 --json

Exit codes: 0 ok, 1 a check or expectation failed, 2 bad usage or scenario, 3 does not fit,
4 deadlock or mismatched communication, 5 backend failure, 70 a bug of shardsim, 130 interrupted.)";

struct Arguments {
  RunArguments run;
  CalibrateArguments calibrate;
  CollectiveArguments collective;
  ScheduleArguments schedule;
  ValidateArguments validate;
  std::vector<std::string> check_files;
  std::vector<std::string> codes;
  std::string schema = "scenario";
  std::string preset;
};

std::vector<PresetInfo> known_presets() {
  std::vector<PresetInfo> presets = list_builtin_presets();
  if (presets.empty()) {
    throw UsageError("E0904", "there are no presets",
                     no_presets_help(builtin_preset_directories()));
  }
  return presets;
}

void list_presets(std::ostream& out) {
  for (const PresetInfo& preset : known_presets()) {
    out << (preset.folder == "models" ? "model   " : "system  ") << preset.name << "\n";
  }
}

void show_preset(const std::string& name, std::ostream& out) {
  std::string known;
  for (const PresetInfo& preset : known_presets()) {
    if (preset.name == name) {
      out << preset_text(preset);
      return;
    }
    known += (known.empty() ? "" : ", ") + preset.name;
  }
  throw UsageError("E0902", "there is no preset \"" + name + "\"", "presets are " + known);
}

// "shardsim FILE" is "shardsim run FILE": put the verb in where the first word is none.
std::vector<std::string> with_verb(int argc, const char* const* argv,
                                   const std::vector<std::string>& verbs) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words.front() == "help") words.front() = "--help";
  const auto first = std::find_if(words.begin(), words.end(),
                                  [](const std::string& word) { return word.substr(0, 1) != "-"; });
  const bool named =
      first != words.end() && std::find(verbs.begin(), verbs.end(), *first) != verbs.end();
  const bool global = std::all_of(words.begin(), words.end(), [](const std::string& word) {
    return word == "-h" || word == "--help" || word == "--version";
  });
  if (!named && !global) words.insert(words.begin(), "run");
  return words;
}

void add_process_options(CLI::App& verb, ProcessOptions& process) {
  verb.add_option("--backend", process.backend,
                  "fiber (simulated), mpi or nccl (one process per rank, held against fiber)")
      ->check(CLI::IsMember({"fiber", "mpi", "nccl"}));
  verb.add_option("--timeout", process.timeout_s,
                  "Seconds without a sign of life, or of progress, after which a real run is lost")
      ->check(CLI::Range(1.0, 86400.0));
  verb.add_option_function<std::string>(
          "--mpi-collectives",
          [&process](const std::string& whose) { process.native_collectives = whose == "native"; },
          "own (of messages, as simulated) or native (those of the MPI library)")
      ->check(CLI::IsMember({"own", "native"}));
  verb.add_option("--nccl-lib", process.nccl_library, "Path of libnccl.so, if it is not found");
}

void add_fingerprint_option(CLI::App& verb, ProcessOptions& process) {
  verb.add_option_function<std::string>(
          "--check", [&process](const std::string&) { process.check_fingerprints = true; },
          "fingerprint: compare the calls of all ranks of a real run before they hang")
      ->check(CLI::IsMember({"fingerprint"}));
}

void add_run_options(CLI::App& verb, Arguments& arguments) {
  verb.add_option("file", arguments.run.file, "The scenario")->required();
  verb.add_option("--set", arguments.run.overrides, "Override a field: a.b=value; repeatable")
      ->allow_extra_args(false);
  add_process_options(verb, arguments.run.process);
  add_fingerprint_option(verb, arguments.run.process);
  verb.add_option("--out", arguments.run.out_directory, "Folder for the files a scenario names")
      ->each([&explore = arguments.run.explore](const std::string& folder) {
        explore.shrunk_directory = folder;
      });
  add_explore_options(verb, arguments.run.explore);
  // Not bound as optionals: for those CLI11 takes an empty value for none.
  verb.add_option_function<std::string>(
      "--record-decisions",
      [&run = arguments.run](const std::string& path) { run.record_decisions = path; },
      "Write what a run with real tensors decided on values; relative to the current folder");
  verb.add_option_function<std::string>(
      "--replay-decisions",
      [&run = arguments.run](const std::string& path) { run.replay_decisions = path; },
      "Decide so in a run without, instead of as plans assume; relative to the current folder");
  verb.add_flag("--json", arguments.run.json, "Print the result object instead of the summary");
  verb.add_flag("-q,--quiet", arguments.run.quiet, "Print nothing unless something is wrong");
}

int run_verb(CLI::App& app, Arguments& arguments, std::ostream& out, std::ostream& err,
             const RunHooks& hooks) {
  if (app.got_subcommand("check")) {
    return command_check(arguments.check_files, arguments.run.overrides, arguments.run.json, out,
                         err);
  }
  if (app.got_subcommand("presets")) {
    if (arguments.preset.empty()) {
      list_presets(out);
    } else {
      show_preset(arguments.preset, out);
    }
    return 0;
  }
  if (app.got_subcommand("doctor")) {
    return command_doctor(arguments.run.process.nccl_library, arguments.run.json, out);
  }
  if (app.got_subcommand("explain")) {
    return command_explain(arguments.codes, arguments.run.json, out);
  }
  if (app.got_subcommand("schema")) {
    out << (arguments.schema == "result" ? result_schema() : scenario_schema());
    return 0;
  }
  if (app.got_subcommand("calibrate")) {
    return command_calibrate(arguments.calibrate, std::cin, out, err);
  }
  if (app.got_subcommand("collective")) {
    return command_collective(arguments.collective, out, err, hooks);
  }
  if (app.got_subcommand("schedule")) return command_schedule(arguments.schedule, out, err);
  if (app.got_subcommand("validate")) return command_validate(arguments.validate, out, err);
  return command_run(arguments.run, out, err, hooks);
}

void build(CLI::App& app, Arguments& arguments) {
  app.set_version_flag("--version", "shardsim " + std::string(version()));
  app.footer(kExamples);
  app.require_subcommand(1);
  CLI::App* run = app.add_subcommand("run", "Simulate a scenario (the default verb)");
  add_run_options(*run, arguments);
  CLI::App* check = app.add_subcommand("check", "Validate scenarios without running them");
  check->add_option("file", arguments.check_files, "Scenarios")->required();
  check->add_option("--set", arguments.run.overrides, "Override a field: a.b=value; repeatable")
      ->allow_extra_args(false);
  check->add_flag("--json", arguments.run.json, "Print problems as JSON");
  CLI::App* collective =
      app.add_subcommand("collective", "Time and check one collective, as nccl-tests does");
  add_collective_options(*collective, arguments.collective);
  add_process_options(*collective, arguments.collective.process);
  CLI::App* calibrate =
      app.add_subcommand("calibrate", "Fit NCCL's prices to what nccl-tests measured");
  add_calibrate_options(*calibrate, arguments.calibrate);
  CLI::App* schedule = app.add_subcommand(
      "schedule", "Show the pipeline schedule of a scenario, or write it as CSV");
  schedule->add_option("file", arguments.schedule.file, "The scenario")->required();
  schedule->add_option("--set", arguments.schedule.overrides, "Override a field; repeatable")
      ->allow_extra_args(false);
  schedule->add_flag("--csv", arguments.schedule.csv, "Print it as PyTorch's pipelining reads it");
  schedule->add_flag("--lowered", arguments.schedule.lowered, "With its sends and receives");
  CLI::App* presets = app.add_subcommand("presets", "List models and systems, or show one");
  presets->add_option("name", arguments.preset, "The preset to show, with its sources");
  CLI::App* doctor = app.add_subcommand("doctor", "Say what this machine has for real backends");
  doctor->add_flag("--json", arguments.run.json, "Print the rows as JSON");
  doctor->add_option("--nccl-lib", arguments.run.process.nccl_library, "Path of libnccl.so");
  CLI::App* explain =
      app.add_subcommand("explain", "Say what the code of a report means, or list all codes");
  explain->add_option("code", arguments.codes, "DEADLOCK, BUF_WRITE, E0203, ...");
  explain->add_flag("--json", arguments.run.json, "Print them as JSON");
  CLI::App* schema = app.add_subcommand("schema", "Print a JSON Schema");
  schema->add_option("which", arguments.schema, "scenario or result")
      ->check(CLI::IsMember({"scenario", "result"}));
  CLI::App* validate =
      app.add_subcommand("validate", "Hold predictions against published measurements");
  add_validate_options(*validate, arguments.validate);
}

}  // namespace

int run_command(int argc, const char* const* argv, std::ostream& out, std::ostream& err,
                bool terminal, const RunHooks& hooks) {
  CLI::App app("Simulates and verifies the parallelism strategies that train large models.",
               "shardsim");
  Arguments arguments;
  arguments.run.color = terminal;
  arguments.run.process.words.assign(argv, argv + argc);
  arguments.collective.process.words.assign(argv, argv + argc);
  build(app, arguments);
  const std::vector<std::string> words =
      with_verb(argc, argv,
                {"run", "calibrate", "check", "collective", "doctor", "explain", "presets",
                 "schedule", "schema", "validate"});
  try {
    app.parse(
        std::vector<std::string>(words.rbegin(), words.rend()));  // CLI11 takes them from the back.
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error, out, err);  // --help and --version
    return report(usage_error(app, error, {argv + 1, argv + argc}), false, out, err);
  }
  try {
    const int exit_code = run_verb(app, arguments, out, err, hooks);
    out.flush();
    if (out) return exit_code;
    return report(
        UsageError("E0906", "cannot write to standard output; what was printed is not complete",
                   "check the space left, or the program that reads"),
        false, out, err);
  } catch (const Error& error) {
    return report(error, arguments.run.json || arguments.collective.json || arguments.validate.json,
                  out, err);
  } catch (const std::exception& error) {
    err << "error[E7000]: " << error.what() << "\n   = help: this is a bug of shardsim; please "
        << "report it with the scenario\n";
    return static_cast<int>(ExitCode::internal);
  }
}

}  // namespace shardsim
