#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "scenarios/load.hpp"
#include "scenarios/source_text.hpp"
#include "scenarios/suggest.hpp"
#include "sim/command/verbs.hpp"
#include "sim/console/output_format.hpp"
#include "sim/console/output_paths.hpp"
#include "sim/console/progress.hpp"
#include "sim/console/whole_file.hpp"
#include "sim/export/program_chakra.hpp"
#include "sim/export/recorded_run.hpp"
#include "sim/run/run.hpp"

#include "sim/programs/program_set.hpp"

namespace shardsim {

namespace {

// The words of `shardsim export`.
struct ExportArguments {
  std::string kind;
  std::string file;                    // The scenario.
  std::vector<std::string> overrides;  // As --set.
  std::string output;  // A file; for kinds with one per rank, the prefix of their names.
  bool lowered = false;
  bool sweep = false;  // nccl-tests: more sizes than the run's.
  bool quiet = false;
};

constexpr std::array kExportKinds = {"schedule", "program", "chakra", "kineto", "nccl-tests"};

std::vector<std::string> export_kind_names() { return {kExportKinds.begin(), kExportKinds.end()}; }

void require_kind(const std::string& kind) {
  if (std::find(kExportKinds.begin(), kExportKinds.end(), kind) != kExportKinds.end()) return;
  throw UsageError("E1374", "there is no export format \"" + kind + "\"",
                   "the first word is " + one_of_list(export_kind_names()));
}

std::string stem_of(const ExportArguments& arguments) {
  if (!arguments.output.empty()) return arguments.output;
  return std::filesystem::path(arguments.file).stem().string();
}

// The names of the output files: one, or one for each rank.
std::vector<std::string> names_of(const ExportArguments& arguments, const std::string& stem,
                                  int ranks) {
  if (arguments.kind == "schedule" || arguments.kind == "program" ||
      arguments.kind == "nccl-tests") {
    return arguments.output.empty() ? std::vector<std::string>{} : std::vector{arguments.output};
  }
  const bool is_chakra = arguments.kind == "chakra";
  std::vector<std::string> names;
  for (int rank = 0; rank < ranks; ++rank) {
    names.push_back(fmt::format("{}.{}.{}", stem, rank, is_chakra ? "et" : "pt.trace.json"));
  }
  if (is_chakra) names.push_back(stem + ".comm_groups.json");
  return names;
}

// Refuses bad paths before a run of minutes, not after it.
void check_paths(const ExportArguments& arguments, const Scenario& scenario) {
  std::vector<PathInUse> written;
  const int ranks = static_cast<int>(scenario.system.ranks);
  for (const std::string& name : names_of(arguments, stem_of(arguments), ranks)) {
    written.push_back({"the file", name});
    require_writable(name, false, "choose another with -o");
  }
  require_apart(paths_read(scenario.files, arguments.file), written);
}

void put(const ExportArguments& arguments, const std::string& text, const Console& console) {
  if (arguments.output.empty()) {
    console.out << text;
  } else {
    write_text(arguments.output, text, console.err);
  }
}

int export_schedule(const ExportArguments& arguments, const Console& console) {
  check_paths(arguments, load_scenario(arguments.file, arguments.overrides));
  std::ostringstream csv;
  const int exit_code = command_schedule({.file = arguments.file,
                                          .overrides = arguments.overrides,
                                          .csv = true,
                                          .lowered = arguments.lowered},
                                         csv, console.err);
  if (exit_code == 0) put(arguments, csv.str(), console);
  return exit_code;
}

int export_program(const ExportArguments& arguments, const Console& console) {
  Scenario scenario = load_scenario(arguments.file, arguments.overrides);
  tell_warnings(scenario.warnings, console.err);
  check_paths(arguments, scenario);
  put(arguments, program_file_of(record_programs(compile(std::move(scenario)))), console);
  return 0;
}

std::unique_ptr<RecordedRun> recorded(const ExportArguments& arguments, const Console& console) {
  Scenario scenario = load_scenario(arguments.file, arguments.overrides);
  tell_warnings(scenario.warnings, console.err);
  check_paths(arguments, scenario);
  Progress progress(console.err, !arguments.quiet);
  RunHooks hooks = console.hooks;
  hooks.on_progress = [&progress] { progress.tick(); };
  std::unique_ptr<RecordedRun> run = record_run(std::move(scenario), hooks);
  progress.done();
  return run;
}

// One file per rank, reported in one line.
void write_ranks(std::size_t ranks, const std::vector<std::string>& names,
                 const std::function<std::string(int rank)>& text_of, std::ostream& err) {
  std::ostringstream each;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    write_text(names[rank], text_of(static_cast<int>(rank)), each);
  }
  err << fmt::format("wrote {} to {}\n", printable(names[0], 200),
                     printable(names[ranks - 1], 200));
}

// The traces of a plan's programs, or of a run that has none.
int export_chakra(const ExportArguments& arguments, const Console& console) {
  Scenario scenario = load_scenario(arguments.file, arguments.overrides);
  check_paths(arguments, scenario);
  const auto ranks = static_cast<std::size_t>(scenario.system.ranks);
  const std::vector<std::string> names =
      names_of(arguments, stem_of(arguments), static_cast<int>(ranks));
  try {
    const ChakraExport made = chakra_of_programs(scenario, console.hooks);
    tell_warnings(scenario.warnings, console.err);
    write_ranks(
        ranks, names, [&](int rank) { return made.ranks.at(static_cast<std::size_t>(rank)); },
        console.err);
    write_text(names.back(), made.groups, console.err);
    return 0;
  } catch (const Error& error) {
    if (error.code() != "E1377" && error.code() != "E1399") throw;
    console.err << "note: " << error.what()
                << "; dependencies are those that a run shows, on this machine alone\n";
  }
  const std::unique_ptr<RecordedRun> run = recorded(arguments, console);
  write_ranks(
      ranks, names, [&](int rank) { return to_chakra(*run, rank); }, console.err);
  write_text(names.back(), chakra_groups(*run), console.err);
  return 0;
}

// `shardsim export KIND FILE`: a file for other programs, made from a scenario (schedule) or from
// its run. Returns the exit code. Throws Error.
int command_export(const ExportArguments& arguments, const Console& console) {
  require_kind(arguments.kind);
  if (arguments.kind == "schedule") return export_schedule(arguments, console);
  if (arguments.kind == "program") return export_program(arguments, console);
  if (arguments.kind == "chakra") return export_chakra(arguments, console);
  const std::unique_ptr<RecordedRun> run = recorded(arguments, console);
  if (arguments.kind == "nccl-tests") {
    put(arguments,
        nccl_tests_tables(*run, {arguments.file, arguments.overrides, arguments.sweep},
                          console.err),
        console);
    return 0;
  }
  const std::vector<std::string> names =
      names_of(arguments, stem_of(arguments), static_cast<int>(run->ranks.size()));
  write_ranks(
      run->ranks.size(), names, [&](int rank) { return to_kineto(*run, rank); }, console.err);
  return 0;
}

void add_export_options(CLI::App& app, ExportArguments& arguments) {
  app.add_option("kind", arguments.kind, one_of_list(export_kind_names()))->required();
  app.add_option("file", arguments.file, "The scenario")->required();
  app.add_option("--set", arguments.overrides, "Override a field; repeatable")
      ->allow_extra_args(false);
  app.add_option("-o,--out", arguments.output, "File to write, or the prefix of the ranks' files");
  app.add_flag("--lowered", arguments.lowered, "Include sends and receives in a schedule");
  app.add_flag("--sweep", arguments.sweep,
               "nccl-tests: besides the run's sizes, powers of two from 8 to 8G");
  app.add_flag("-q,--quiet", arguments.quiet, "Print no progress");
}

}  // namespace

Verb export_verb() {
  return with_arguments<ExportArguments>(
      {.name = "export",
       .summary = "Write a schedule, traces or tables for other programs",
       .examples = {{"shardsim export schedule scenarios/verify-gpt-pp4-1f1b.json -o 1f1b.csv",
                     "for PyTorch's pipelining"}}},
      add_export_options, command_export);
}

}  // namespace shardsim
