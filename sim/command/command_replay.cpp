#include <ostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "sim/kernel/error.hpp"

#include "scenarios/json_value.hpp"
#include "scenarios/presets.hpp"
#include "scenarios/read_file.hpp"
#include "sim/command/verbs.hpp"
#include "sim/console/progress.hpp"
#include "sim/console/whole_file.hpp"
#include "sim/run/run.hpp"

#include "sim/programs/program_replay.hpp"
#include "sim/programs/program_set.hpp"

namespace shardsim {

namespace {

// The words of `shardsim replay`.
struct ReplayArguments {
  std::vector<std::string> files;
  std::string system = "dgx-h100";
  std::vector<std::string> overrides;  // As --set.
  double scale_recorded = 1.0;
  bool json = false;
  bool quiet = false;
};

constexpr std::size_t kMostFileBytes = std::size_t{1} << 30U;

ProgramSet read_programs(const ReplayArguments& arguments) {
  const std::string& path = arguments.files.front();
  const std::string text = read_regular_file(path, kMostFileBytes);
  return read_program_file(text, path);
}

// `shardsim replay FILE`: the time of recorded programs on a machine. Returns 0. Throws Error.
int command_replay(const ReplayArguments& arguments, const Console& console) {
  const ProgramSet set = read_programs(arguments);
  const Experiment machine = compile(scenario_of_system(arguments.system, arguments.overrides));
  Progress progress(console.err, !arguments.quiet);
  const ProgramReplayOptions options{.cluster = machine_for(set, machine),
                                     .hole_factor = arguments.scale_recorded,
                                     .on_progress = [&progress] { progress.tick(); }};
  const ProgramReplay replay = replay_programs_on(set, options);
  progress.done();
  console.out << (arguments.json ? replay_json(set, options.cluster, replay)
                                 : replay_text(set, options.cluster, replay));
  return 0;
}

void add_replay_options(CLI::App& app, ReplayArguments& arguments) {
  constexpr double kMostFactor = 1000.0;
  app.add_option("files", arguments.files, "Programs, as `shardsim export program` writes them")
      ->required();
  app.add_option("--system", arguments.system,
                 "The machine: a preset (dgx-h100) or a scenario's file");
  app.add_option("--set", arguments.overrides,
                 "Override a field of the machine: a.b=value; repeatable")
      ->allow_extra_args(false);
  app.add_option("--scale-recorded", arguments.scale_recorded,
                 "Multiply computing that is taken over as recorded (1)")
      ->check(CLI::Range(0.0, kMostFactor));
  app.add_flag("--json", arguments.json, "Print one JSON object instead of the text");
  app.add_flag("-q,--quiet", arguments.quiet, "Print no progress");
}

}  // namespace

Verb replay_verb() {
  return with_arguments<ReplayArguments>(
      {.name = "replay",
       .summary = "Replay recorded programs on another machine",
       .examples = {{"shardsim replay step.program.jsonl --system dgx-b200 --set "
                     "system.network.oversubscription=2",
                     "what the run would take on B200 with half the network"}}},
      add_replay_options, command_replay);
}

}  // namespace shardsim
