#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "sim/command/command_run.hpp"
#include "sim/command/verbs.hpp"
#include "sim/console/shell_word.hpp"
#include "sim/console/whole_file.hpp"
#include "sim/run/run.hpp"

namespace shardsim {

namespace {

namespace fs = std::filesystem;

// The folder gets the scenario, too.
struct DemoArguments : RunArguments {
  DemoArguments() { out_directory = "shardsim-demo"; }
};

// Writes the scenario beside its outputs, for the user to change. Never overwrites a changed file.
void put_scenario(const fs::path& path, bool quiet, std::ostream& err) {
  if (fs::exists(path)) {
    std::ifstream file(path, std::ios::binary);
    const std::string found{std::istreambuf_iterator<char>(file), {}};
    if (found == demo_scenario()) return;
    throw UsageError("E0969", fmt::format("{} is no longer the demo's scenario", path.string()),
                     fmt::format("run it: \"shardsim {} --out {}\"; or give the demo another "
                                 "folder with --out",
                                 path.string(), path.parent_path().string()));
  }
  write_complete(path, demo_scenario(), "choose another folder with --out");
  if (!quiet) tell_written(path, err);
}

// The demo's own name describes its model and its machines.
constexpr const char* kNameOfChanged = "name=demo, changed";

// Whether an override sets the field, or its section.
bool sets(const std::vector<std::string>& overrides, const std::string& path) {
  return std::any_of(overrides.begin(), overrides.end(), [&](const std::string& text) {
    const std::string set = overridden_field(text);
    return set == path || path.rfind(set + ".", 0) == 0;
  });
}

// `shardsim demo`: puts the built-in scenario into the folder and runs it as `shardsim FILE` does.
// Throws UsageError (E0969) if the folder has a changed one.
int command_demo(DemoArguments& run, const Console& console) {
  const fs::path scenario = fs::path(run.out_directory) / "scenario.json";
  put_scenario(scenario, run.quiet, console.err);
  run.file = scenario.string();
  run.text = demo_scenario();
  run.color = console.color;
  run.width = console.width;
  if (!run.overrides.empty() && !sets(run.overrides, "name")) {
    run.overrides.insert(run.overrides.begin(), kNameOfChanged);
  }
  // The file has no overrides, so the proposed command repeats them. It is faster, and nearer to
  // the edge of the memory: a typical planning question.
  std::vector<std::string> next = run.overrides;
  if (!sets(next, "parallelism.tp")) next.emplace_back("parallelism.tp=4");
  run.next_command = command_line(run.file, next);
  return command_run(run, console.out, console.err, console.hooks);
}

void add_demo_options(CLI::App& app, DemoArguments& arguments) {
  app.add_option("--out", arguments.out_directory, "Folder for its output files")
      ->capture_default_str();
  app.add_option("--set", arguments.overrides, "Override a field: a.b=value; repeatable")
      ->allow_extra_args(false);
  app.add_flag("--json", arguments.json, "Print the result object instead of the summary");
  app.add_flag("--assumptions", arguments.assumptions,
               "List every number and simplification behind the result");
  app.add_flag("-q,--quiet", arguments.quiet, "Print nothing unless something is wrong");
}

}  // namespace

Verb demo_verb() {
  return with_arguments<DemoArguments>(
      {.name = "demo",
       .summary = "A first plan: Llama 3 70B on 128 GPUs; needs no file",
       .group = VerbGroup::start,
       .examples = {{"shardsim demo", "Llama 3 70B on 128 GPUs: time and memory of a step"},
                    {"shardsim demo --set system.preset=dgx-b200 --out b200",
                     "the same on other machines"}}},
      add_demo_options, command_demo);
}

}  // namespace shardsim
