#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own name.
class App;
}  // namespace CLI

// The parts of `shardsim VERB`. To add a verb, write a file that makes its Verb, and a row in
// sim/command/verbs.cpp.
namespace shardsim {

struct RunHooks;

/// The streams of a verb. Results go to `out`, everything else to `err`.
struct Console {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  bool color = false;              ///< Whether `out` is a terminal that takes colours.
  std::vector<std::string> words;  ///< The command line itself, with which processes are started.
  const RunHooks& hooks;           ///< Hooks for runs, in tests.
};

/// The group of a verb in --help, by the user's goal.
enum class VerbGroup { start, run, plan, measure, shell };

/// One verb. Its functions share the arguments that its maker allocated, so a Verb serves one
/// command line.
struct Verb {
  std::string name;     ///< "sweep"
  std::string summary;  ///< A line of `shardsim --help`, without a full stop.
  /// Declares options and positional words, bound to the arguments.
  std::function<void(CLI::App& app)> add_options;
  /// Returns the exit code. Throws Error for a failure.
  std::function<int(const Console& console)> run;
  /// Whether errors are printed as JSON; null: never.
  std::function<bool()> wants_json;
  /// Whether errors are printed as annotations of GitHub Actions; null: never.
  std::function<bool()> wants_annotations = nullptr;
  VerbGroup group = VerbGroup::plan;
  /// Command lines and their purposes, the most useful first; --help shows them.
  std::vector<std::pair<std::string, std::string>> examples = {};
};

}  // namespace shardsim
