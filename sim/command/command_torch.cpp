#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "sim/kernel/error.hpp"
#include "sim/kernel/text.hpp"

#include "scenarios/presets.hpp"
#include "sim/command/command_replay.hpp"
#include "sim/command/gpu_facts.hpp"
#include "sim/command/python_part.hpp"
#include "sim/command/verbs.hpp"
#include "sim/console/scratch_folder.hpp"
#include "sim/console/whole_file.hpp"
#include "sim/run/run.hpp"

#include "sim/programs/program_replay.hpp"
#include "sim/remote/torch_verify.hpp"

namespace shardsim {

namespace {

constexpr int kDefaultSteps = 3;
constexpr int kMostVerifiedRanks = 64;  // A process each.

// The words of `shardsim torch`.
struct TorchArguments {
  std::string script;
  int world = 0;  // Not given.
  std::string ranks = "auto";
  int steps = kDefaultSteps;
  std::string limit_s = "600";
  std::string out;                     // The folder of the records; empty: none is kept.
  std::string system = "dgx-h100";     // As `shardsim replay` takes it,
  std::vector<std::string> overrides;  // and its --set.
  bool verify = false;
  bool asks_facts = false;
  bool json = false;
  bool quiet = false;
};

void require_words(const TorchArguments& arguments) {
  const std::string example = "for example: shardsim torch --world 8 train.py";
  if (arguments.script.empty()) throw UsageError("E0905", "no script is given", example);
  if (arguments.world == 0) {
    throw UsageError("E0905", "\"shardsim torch\" needs \"--world\", the number of ranks", example);
  }
}

// The recorder writes the ranks' records to `folder`. Returns its exit code.
int record(const TorchArguments& arguments, const SystemSpec& system, const std::string& folder,
           const Console& console) {
  std::vector<std::string> words = {"--world",     std::to_string(arguments.world),
                                    "--ranks",     arguments.ranks,
                                    "--steps",     std::to_string(arguments.steps),
                                    "--limit",     arguments.limit_s,
                                    "--gpu-facts", gpu_facts_json(system),
                                    "--out",       folder,
                                    "--",          arguments.script};
  words.insert(words.end(), console.passed_on.begin(), console.passed_on.end());
  return run_to_end(python_command("shardsim.torch.record", words), console.err);
}

// How a rank that trains with data is started.
ProcessCommand rank_command(const TorchArguments& arguments, const std::string& facts, int rank,
                            const std::string& socket, const std::string& stack,
                            const Console& console) {
  std::vector<std::string> words = {"--rank",      std::to_string(rank),
                                    "--world",     std::to_string(arguments.world),
                                    "--steps",     std::to_string(arguments.steps),
                                    "--gpu-facts", facts,
                                    "--socket",    socket,
                                    "--stack",     stack,
                                    "--",          arguments.script};
  words.insert(words.end(), console.passed_on.begin(), console.passed_on.end());
  ProcessCommand command = python_command("shardsim.torch.verify", words);
  command.environment.emplace_back("OMP_NUM_THREADS", "1");
  return command;
}

// `shardsim torch --verify SCRIPT`. Returns 0, or the exit code of a build that failed. Throws
// Error.
int verify(const TorchArguments& arguments, const Experiment& machine, const Console& console) {
  if (arguments.world > kMostVerifiedRanks) {
    throw UsageError(
        "E0905", concat("\"--verify\" runs a process for each rank, at most ", kMostVerifiedRanks),
        "give a smaller --world, or record the script without --verify");
  }
  // Once, before all ranks want it at the same time.
  const int exit_code = run_to_end(python_command("shardsim.torch.build_native", {}), console.err);
  if (exit_code != 0) return exit_code;
  const ScratchFolder scratch;
  const std::string facts = gpu_facts_json(machine.scenario().system);
  const TorchVerifyOptions options{
      .cluster = machine_of_ranks(arguments.world, machine),
      .script = arguments.script,
      .folder = scratch.path(),
      .command =
          [&](int rank, const std::string& socket, const std::string& stack) {
            return rank_command(arguments, facts, rank, socket, stack, console);
          },
      .limit_s = parse_number<double>(arguments.limit_s).value_or(0.0),
      .output = &console.err};
  const TorchVerification result = verify_torch(options);
  if (!result.failure.empty()) {
    console.err << result.failure;
    return static_cast<int>(ExitCode::communication);
  }
  console.out << (arguments.json ? verification_json(options, result)
                                 : verification_text(options, result));
  return 0;
}

// `shardsim torch SCRIPT`: records a PyTorch script and prices a step. Returns 0, or the exit code
// of a recorder that failed. Throws Error.
int command_torch(const TorchArguments& arguments, const Console& console) {
  const Experiment machine = compile(scenario_of_system(arguments.system, arguments.overrides));
  const SystemSpec& system = machine.scenario().system;
  if (arguments.asks_facts) {
    console.out << gpu_facts_json(system) << "\n";
    return 0;
  }
  require_words(arguments);
  // A machine refuses ranks before minutes are spent on their records.
  static_cast<void>(machine_of_ranks(arguments.world, machine));
  if (arguments.verify) return verify(arguments, machine, console);
  std::optional<ScratchFolder> scratch;
  if (arguments.out.empty()) scratch.emplace();
  const std::string folder = scratch ? scratch->path() : arguments.out;
  const int exit_code = record(arguments, system, folder, console);
  if (exit_code != 0) return exit_code;
  if (!scratch) tell_written(folder, console.err);
  const ReplayArguments replay{.files = {folder},
                               .system = arguments.system,
                               .overrides = arguments.overrides,
                               .json = arguments.json,
                               .quiet = arguments.quiet};
  const ProgramSet set = read_programs(replay);
  scratch.reset();  // An interrupt during the replay ends this process at once.
  print_replay(set, replay, console);
  return 0;
}

void add_torch_options(CLI::App& app, TorchArguments& arguments) {
  app.add_option("script", arguments.script,
                 "The training script; all words behind it are its own");
  app.add_option("--world", arguments.world, "Number of ranks")->check(CLI::PositiveNumber);
  app.add_option("--system", arguments.system,
                 "The machine: a preset (dgx-h100) or a scenario's file");
  app.add_option("--set", arguments.overrides,
                 "Override a field of the machine: a.b=value; repeatable")
      ->allow_extra_args(false);
  app.add_option("--ranks", arguments.ranks,
                 "Ranks that are recorded: auto (as many as stand for all), all, or 0,8,16");
  app.add_option("--steps", arguments.steps,
                 "End the script after so many steps of the optimizer (3); 0: it ends by itself")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--verify", arguments.verify,
               "Train with real numbers, each rank in a process: say what hangs or does not match");
  app.add_option("--limit", arguments.limit_s,
                 "Seconds for a rank to be recorded, or to be silent in --verify (600)")
      ->check(CLI::PositiveNumber);
  app.add_option("-o,--out", arguments.out, "Keep the records in this folder, for replays");
  app.add_flag("--gpu-facts", arguments.asks_facts,
               "Record nothing; print what scripts are told of the machine's GPUs, as JSON");
  app.add_flag("--json", arguments.json, "Print one JSON object instead of the text");
  app.add_flag("-q,--quiet", arguments.quiet, "Print no progress");
}

}  // namespace

Verb torch_verb() {
  return with_arguments<TorchArguments>(
      {.name = "torch",
       .summary = "Plan a PyTorch script as it is, without a GPU",
       .starts_program = true,
       .examples = {{"shardsim torch --world 64 train.py --lr 0.1", "a step of it on 8 DGX-H100"},
                    {"shardsim torch --world 64 --system dgx-b200 --out step train.py",
                     "on B200; `shardsim replay step` prices the records again"},
                    {"shardsim torch --world 4 --verify train.py",
                     "the script trains on 4 virtual ranks"}}},
      add_torch_options, command_torch);
}

}  // namespace shardsim
