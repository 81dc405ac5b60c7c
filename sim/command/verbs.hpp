#pragma once

#include <cstddef>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own name.
class App;
}  // namespace CLI

// The verbs of the command, each made in command_NAME.cpp, which says its exit codes and errors. To
// add a verb, write a file that makes its Verb, its line here, and its row in cli.cpp.
namespace shardsim {

struct RunHooks;

/// Columns of the terminals that show a command's output and its errors; 0: it is no terminal.
struct Screen {
  std::size_t out_width = 0;
  std::size_t err_width = 0;
};

/// The streams of a verb. Results go to `out`, everything else to `err`.
struct Console {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  bool color = false;              ///< Whether `out` is a terminal that takes colours.
  std::size_t width = 100;         ///< Columns of a page: those of the terminal, at most 100.
  std::vector<std::string> words;  ///< The command line itself, with which processes are started.
  std::vector<std::string> passed_on;  ///< For the program that a verb starts (starts_program).
  const RunHooks& hooks;               ///< Hooks for runs, in tests.
};

/// The form in which a failure is printed; annotations are those of GitHub Actions, junit is the
/// XML of test results that CI services read.
enum class ErrorForm { text, json, annotations, junit };

/// The group of a verb in --help, by the user's goal.
enum class VerbGroup { start, run, plan, measure, shell };

/// One verb. Its functions share the arguments that its maker allocated (with_arguments), so a Verb
/// serves one command line.
struct Verb {
  std::string name;     ///< "sweep"
  std::string summary;  ///< A line of `shardsim --help`, without a full stop.
  VerbGroup group = VerbGroup::plan;
  /// Whether it starts the program that its first word without an option names. All words after
  /// that are the program's own, whatever they look like (Console::passed_on).
  bool starts_program = false;
  /// Command lines and their purposes, the most useful first; --help shows them.
  std::vector<std::pair<std::string, std::string>> examples = {};
  /// Declares options and positional words, bound to the arguments.
  std::function<void(CLI::App& app)> add_options = nullptr;
  /// Returns the exit code. Throws Error for a failure.
  std::function<int(const Console& console)> run = nullptr;
  /// How errors of `run` are printed, once the command line is read.
  std::function<ErrorForm()> error_form = nullptr;
};

/// `verb` with Arguments of its own: `add_options(app, arguments)` binds them, and
/// `run(arguments, console)` returns the exit code. Members `json`, `annotations` and `junit`,
/// where there are such, say how errors are printed.
template <class Arguments, class AddOptions, class Run>
[[nodiscard]] Verb with_arguments(Verb verb, AddOptions add_options, Run run) {
  const auto arguments = std::make_shared<Arguments>();
  verb.add_options = [=](CLI::App& app) { add_options(app, *arguments); };
  verb.run = [=](const Console& console) { return run(*arguments, console); };
  verb.error_form = [=] {
    if constexpr (requires { arguments->json; }) {
      if (arguments->json) return ErrorForm::json;
    }
    if constexpr (requires { arguments->annotations; }) {
      if (arguments->annotations) return ErrorForm::annotations;
    }
    if constexpr (requires { arguments->junit; }) {
      if (arguments->junit) return ErrorForm::junit;
    }
    return ErrorForm::text;
  };
  return verb;
}

/// Every verb, in the order in which --help lists those of a group. The first is run if the command
/// line names none.
[[nodiscard]] std::vector<Verb> all_verbs();

/// `shardsim FILE`: simulates a scenario, prints the result and writes the files it names.
[[nodiscard]] Verb run_verb();
/// `shardsim demo`: runs the built-in scenario in a folder of its own.
[[nodiscard]] Verb demo_verb();
/// `shardsim init`: writes a first scenario, with comments.
[[nodiscard]] Verb init_verb();
/// `shardsim fix FILE...`: rewrites the mistakes that have one clear remedy.
[[nodiscard]] Verb fix_verb();
/// `shardsim plan MODEL --gpus N --gpu KIND`: finds the layout to train with.
[[nodiscard]] Verb plan_verb();
/// `shardsim serve`: a page on which layouts are tried.
[[nodiscard]] Verb serve_verb();
/// `shardsim sweep FILE`: computes the missing points of a sweep.
[[nodiscard]] Verb sweep_verb();
/// `shardsim merge DIR`: puts the parts of a sweep together.
[[nodiscard]] Verb merge_verb();
/// `shardsim diff A B`: compares the time and memory of two runs.
[[nodiscard]] Verb diff_verb();
/// `shardsim sensitivity FILE`: runs a scenario with less and more of each quantity.
[[nodiscard]] Verb sensitivity_verb();
/// `shardsim import KIND FILE...`: makes a scenario of another program's files.
[[nodiscard]] Verb import_verb();
/// `shardsim export KIND FILE`: writes a schedule, traces or tables for other programs.
[[nodiscard]] Verb export_verb();
/// `shardsim replay FILE`: replays recorded programs on another machine.
[[nodiscard]] Verb replay_verb();
/// `shardsim torch SCRIPT ARGS...`: records a PyTorch script without a GPU, and prices a step.
[[nodiscard]] Verb torch_verb();
/// `shardsim presets [NAME]`: lists models and systems, or shows one with its sources.
[[nodiscard]] Verb presets_verb();
/// `shardsim schema [scenario|result]`: prints the JSON Schema of what is read or written.
[[nodiscard]] Verb schema_verb();
/// `shardsim check FILE...`: validates scenarios without running them.
[[nodiscard]] Verb check_verb();
/// `shardsim schedule FILE`: shows the pipeline schedule of a scenario, without a run.
[[nodiscard]] Verb schedule_verb();
/// `shardsim explain CODE...`: prints the meaning of codes of diagnoses.
[[nodiscard]] Verb explain_verb();
/// `shardsim collective OP`: times and checks one operation over sizes.
[[nodiscard]] Verb collective_verb();
/// `shardsim doctor`: lists the parts of this machine that real backends need.
[[nodiscard]] Verb doctor_verb();
/// `shardsim calibrate FILE...`: fits system.nccl to nccl-tests, or constants of kernels.
[[nodiscard]] Verb calibrate_verb();
/// `shardsim validate [TABLE...]`: compares predictions with published measurements.
[[nodiscard]] Verb validate_verb();
/// `shardsim completion bash|zsh|fish`: prints the script.
[[nodiscard]] Verb completion_verb();
/// `shardsim man`: prints shardsim(1); an installed one is what `man shardsim` shows.
[[nodiscard]] Verb man_verb();

struct ScheduleArguments {
  std::string file;
  std::vector<std::string> overrides;  ///< "a.b=value" each.
  bool csv = false;                    ///< Print it as a file that PyTorch and schedule_file read.
  bool lowered = false;                ///< With its sends and receives.
};

/// `shardsim schedule FILE`: the pipeline schedule of a scenario, without a run: its picture, idle
/// time and held activations with F = I = W, or the schedule as CSV. Returns 0, or 4 and says why
/// if the schedule cannot run. Throws Error for a scenario that is wrong or has no pipeline.
int command_schedule(const ScheduleArguments& arguments, std::ostream& out, std::ostream& err);

/// The subject of errors whose codes begin like `code`: E0203 and others of E02 are settings that
/// contradict each other. Null for text that is no such code, or belongs to no family.
[[nodiscard]] const char* error_family(std::string_view code);

/// The scenario of `shardsim demo`, with its comments. It names presets, as files do.
[[nodiscard]] const std::string& demo_scenario();

}  // namespace shardsim
