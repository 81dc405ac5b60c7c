#include "sim/app/command_check.hpp"

#include <memory>
#include <ostream>
#include <utility>

#include <CLI/CLI.hpp>

#include "scenarios/load.hpp"
#include "scenarios/scenario_error.hpp"
#include "sim/app/output_format.hpp"

namespace shardsim {

int command_check(const std::vector<std::string>& files, const std::vector<std::string>& overrides,
                  bool json, std::ostream& out, std::ostream& err) {
  std::vector<Problem> problems;
  std::size_t num_dropped = 0;
  for (const std::string& file : files) {
    try {
      const Scenario scenario = load_scenario(file, overrides);
      for (const std::string& warning : scenario.warnings) err << "warning: " << warning << "\n";
      if (!json) out << file << ": valid, " << scenario.system.ranks << " ranks\n";
    } catch (const ScenarioError& error) {
      problems.insert(problems.end(), error.problems().begin(), error.problems().end());
      num_dropped += error.num_dropped();
    }
  }
  if (!problems.empty()) throw ScenarioError(std::move(problems), num_dropped);
  if (json) out << "[]\n";
  return 0;
}

Verb check_verb() {
  struct Arguments {
    std::vector<std::string> files;
    std::vector<std::string> overrides;
    bool json = false;
    bool annotations = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  return {.name = "check",
          .summary = "Validate scenarios without running them",
          .add_options =
              [arguments](CLI::App& app) {
                app.add_option("file", arguments->files, "Scenarios")->required();
                app.add_option("--set", arguments->overrides,
                               "Override a field: a.b=value; repeatable")
                    ->allow_extra_args(false);
                add_output_format(app, arguments->json, arguments->annotations,
                                  "Print problems as JSON");
              },
          .run =
              [arguments](const Console& console) {
                return command_check(arguments->files, arguments->overrides, arguments->json,
                                     console.out, console.err);
              },
          .wants_json = [arguments] { return arguments->json; },
          .wants_annotations = [arguments] { return arguments->annotations; },
          .group = VerbGroup::run,
          .examples = {{"shardsim check scenarios/quickstart.json",
                        "every problem of a file, without running it"},
                       {"shardsim check --output-format=github plan.json",
                        "in a workflow: beside the changed lines"}}};
}

}  // namespace shardsim
