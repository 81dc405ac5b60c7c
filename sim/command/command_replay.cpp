#include "sim/command/command_replay.hpp"

#include <filesystem>
#include <ostream>
#include <string>
#include <utility>
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

#include "sim/programs/chakra_reader.hpp"
#include "sim/programs/kernel_report.hpp"
#include "sim/programs/kineto_reader.hpp"
#include "sim/programs/program_replay.hpp"
#include "sim/programs/program_set.hpp"
#include "sim/programs/rank_records.hpp"
#include "sim/programs/trace_files.hpp"
#include "sim/programs/trace_link.hpp"

namespace shardsim {

namespace {

constexpr std::size_t kMostFileBytes = std::size_t{1} << 30U;

// The list of groups that `shardsim export chakra` writes beside its traces; "" if there is none.
std::string groups_beside(const std::string& path) {
  const std::string stem = path.substr(0, path.rfind('.', path.rfind(".et") - 1));
  const std::string beside = stem + ".comm_groups.json";
  return std::filesystem::exists(beside) ? beside : std::string();
}

// `num_ranks`: as many as the traces say; 0: they do not.
ProgramSet linked(const ReplayArguments& arguments, TraceSet traces, int num_ranks = 0) {
  complete_ranks(traces, arguments.ranks > 0 ? arguments.ranks : num_ranks);
  drop_idle_groups(traces);
  return link_traces(traces);
}

}  // namespace

ProgramSet read_programs(const ReplayArguments& arguments) {
  const std::vector<TraceFile> files = read_trace_files(arguments.files);
  const std::string& first = files.front().bytes;
  if (looks_like_chakra(first)) {
    const std::string groups =
        arguments.groups.empty() ? groups_beside(files.front().path) : arguments.groups;
    return linked(arguments,
                  read_chakra(files, groups.empty() ? std::string()
                                                    : read_regular_file(groups, kMostFileBytes)));
  }
  if (!looks_like_program_file(first) && looks_like_kineto(first)) {
    int num_ranks = 0;
    TraceSet traces = read_kineto(files, num_ranks);
    return linked(arguments, std::move(traces), num_ranks);
  }
  if (looks_like_record(first)) return merge_records(files);
  if (files.size() == 1) return read_program_file(first, files.front().path);
  throw UsageError("E1378", "several files are given, which are no traces, nor records of ranks",
                   "give one program file, records of single ranks, or traces: NAME.RANK.et, or in "
                   "the order of ranks");
}

void print_replay(const ProgramSet& set, const ReplayArguments& arguments, const Console& console) {
  const Experiment machine = compile(scenario_of_system(arguments.system, arguments.overrides));
  Progress progress(console.err, !arguments.quiet);
  const ProgramReplayOptions options{.cluster = machine_for(set, machine),
                                     .hole_factor = arguments.scale_recorded,
                                     .on_progress = [&progress] { progress.tick(); }};
  const ProgramReplay replay = replay_programs_on(set, options);
  progress.done();
  const KernelReport kernels = kernels_of(set, options, replay);
  console.out << (arguments.json ? replay_json(set, options.cluster, replay, kernels)
                                 : replay_text(set, options.cluster, replay, kernels));
}

namespace {

// `shardsim replay FILE`: the time of recorded programs on a machine. Returns 0. Throws Error.
int command_replay(const ReplayArguments& arguments, const Console& console) {
  const ProgramSet set = read_programs(arguments);
  if (!arguments.output.empty()) {
    write_text(arguments.output, program_file_of(set), console.err);
  }
  print_replay(set, arguments, console);
  return 0;
}

void add_replay_options(CLI::App& app, ReplayArguments& arguments) {
  constexpr double kMostFactor = 1000.0;
  app.add_option("files", arguments.files,
                 "A file of programs, records of single ranks (or their folder), or traces: "
                 "NAME.RANK.et, or in the order of ranks")
      ->required();
  app.add_option("--groups", arguments.groups,
                 "Groups of Chakra's traces (comm_groups.json beside them)");
  app.add_option("--ranks", arguments.ranks,
                 "Number of ranks, where some have no trace (as many as groups name)")
      ->check(CLI::PositiveNumber);
  app.add_option("-o,--out", arguments.output, "Write the programs to this file, too");
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
       .examples = {{"shardsim replay step.program.jsonl --system dgx-b200",
                     "recorded elsewhere, priced on B200"},
                    {"shardsim replay step.*.et --set system.inter_node.bandwidth_gb_per_s=25",
                     "traces of all ranks, with half the network"}}},
      add_replay_options, command_replay);
}

}  // namespace shardsim
