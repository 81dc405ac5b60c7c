#include <istream>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "scenarios/load.hpp"
#include "scenarios/scenario_error.hpp"
#include "sim/command/shared_options.hpp"
#include "sim/command/verbs.hpp"
#include "sim/console/junit.hpp"
#include "sim/console/output_format.hpp"
#include "sim/console/output_paths.hpp"
#include "sim/console/whole_file.hpp"

namespace shardsim {

namespace {

// Refuses the paths that a run without --out would refuse.
void require_apart_here(const std::vector<FileRead>& read, const OutputSpec& output,
                        const std::string& file) {
  try {
    const std::vector<PathInUse> written = paths_written(output, ".");
    require_apart(paths_read(read, file), written);
    require_distinct(written);
    for (const PathInUse& output : written) {
      require_writable(output.path, true, "change " + output.what);
    }
  } catch (const UsageError& error) {
    ProblemList problems;
    problems.add_file(error.code(), file, error.what(), error.fix());
    throw ScenarioError(problems.problems(), 0);
  }
}

struct CheckArguments {
  std::vector<std::string> files;
  std::vector<std::string> overrides;
  bool json = false;
  bool annotations = false;
  bool junit = false;
};

void add_check_options(CLI::App& app, CheckArguments& arguments) {
  app.add_option("file", arguments.files, "Scenarios; - is standard input")->required();
  app.add_option("--set", arguments.overrides, "Override a field: a.b=value; repeatable")
      ->allow_extra_args(false);
  add_output_format(app, arguments.json, arguments.annotations, "Print problems as JSON",
                    &arguments.junit);
}

Scenario checked(const std::string& file, const CheckArguments& arguments, std::istream& in) {
  Scenario scenario = file == kStandardInput
                          ? load_scenario_text(read_standard_input(in), file, arguments.overrides)
                          : load_scenario(file, arguments.overrides);
  require_apart_here(scenario.files, scenario.output, file);
  return scenario;
}

// A test case for each file: valid, or wrong with all of its problems.
JunitCase case_of_file(const std::string& file, const ScenarioError* error) {
  JunitCase each{.class_name = file, .name = "valid"};
  if (error == nullptr) return each;
  each.outcome = CaseOutcome::error;  // As for a run, which could not begin either.
  each.type = error->code();
  each.message = error->what();
  each.text = error->render_all();
  return each;
}

// `shardsim check FILE...`: validates only. Throws the problems of all files together; with --json
// or --output-format=junit the output is one document in any case.
int command_check(const CheckArguments& arguments, const Console& console) {
  const bool says_valid = !arguments.json && !arguments.junit;
  std::vector<Problem> problems;
  std::vector<JunitCase> cases;
  std::size_t num_dropped = 0;
  for (const std::string& file : arguments.files) {
    try {
      const Scenario scenario = checked(file, arguments, console.in);
      tell_warnings(scenario.warnings, console.err);
      if (says_valid)
        console.out << printable(file, 200) << ": valid, " << scenario.system.ranks << " ranks\n";
      cases.push_back(case_of_file(file, nullptr));
    } catch (const ScenarioError& error) {
      problems.insert(problems.end(), error.problems().begin(), error.problems().end());
      num_dropped += error.num_dropped();
      cases.push_back(case_of_file(file, &error));
    }
  }
  if (arguments.junit) {
    console.out << junit_xml("shardsim check", cases);
    tell_failures(cases, console.err);
  }
  if (problems.empty()) {
    if (arguments.json) console.out << "{\n  \"errors\": []\n}\n";
    return 0;
  }
  ScenarioError all(std::move(problems), num_dropped);
  if (arguments.junit) return static_cast<int>(all.exit_code());
  throw all;
}

}  // namespace

Verb check_verb() {
  return with_arguments<CheckArguments>(
      {.name = "check",
       .summary = "Validate scenarios without running them",
       .group = VerbGroup::run,
       .examples = {{"shardsim check scenarios/quickstart.json",
                     "every problem of a file, without running it"},
                    {"shardsim check --output-format=github plan.json",
                     "in a workflow: beside the changed lines"},
                    {"shardsim check --output-format=junit plan.json > check.xml",
                     "test cases for a CI service"}}},
      add_check_options, command_check);
}

}  // namespace shardsim
