#include <ostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/kernel/error.hpp"
#include "sim/kernel/metric_rows.hpp"

#include "scenarios/source_text.hpp"
#include "sim/command/verbs.hpp"
#include "sim/console/output_paths.hpp"
#include "sim/console/progress.hpp"
#include "sim/console/whole_file.hpp"
#include "sim/diff/comparison.hpp"
#include "sim/diff/run_side.hpp"

namespace shardsim {

namespace {

struct DiffArguments {
  std::string a;
  std::string b;                       // Empty: A, with the overrides.
  std::vector<std::string> others;     // C and D.
  std::vector<std::string> overrides;  // "a.b=value" each, for B.
  std::string measured;                // A real run in B's place; empty: none.
  std::vector<std::string> limits;     // "step_time_s > 2%" each.
  std::string report;                  // A page to write; empty: none.
  bool json = false;
  bool quiet = false;
};

SideRequest request_of_b(const DiffArguments& arguments) {
  if (!arguments.measured.empty()) {
    if (arguments.b.empty() && arguments.overrides.empty()) {
      return {.path = arguments.measured, .overrides = {}, .measured = true};
    }
    throw UsageError("E1345", "--measured stands in B's place",
                     "leave B and --set out: shardsim diff A --measured FILE");
  }
  if (!arguments.b.empty()) return {.path = arguments.b, .overrides = arguments.overrides};
  if (!arguments.overrides.empty()) {
    return {.path = arguments.a, .overrides = arguments.overrides};
  }
  throw UsageError("E1345", "there is nothing to compare " + arguments.a + " with",
                   "name a second file, a real run (--measured FILE), or what is to change (--set "
                   "parallelism.tp=4)");
}

void add_diff_options(CLI::App& verb, DiffArguments& arguments) {
  verb.add_option("a", arguments.a, "A result.json or a scenario")->required();
  verb.add_option("b", arguments.b,
                  "A result, scenario, Megatron-LM log or profiler trace (A with --set)");
  verb.add_option("others", arguments.others, "Up to two more sides, compared with A, too")
      ->expected(0, CLI::detail::expected_max_vector_size);
  verb.add_option("--set", arguments.overrides, "Override a field of B: a.b=value; repeatable")
      ->allow_extra_args(false);
  verb.add_option("--measured", arguments.measured,
                  "A real run as B: a log, a trace, or the result of a run on processes");
  verb.add_option("--fail-if", arguments.limits,
                  fmt::format("Exit with 1 if a metric changes by more: \"{} > 2%\"; repeatable",
                              metric::kStepTimeS.name))
      ->allow_extra_args(false);
  verb.add_option("--report", arguments.report, "Write the sides beside each other as a page");
  verb.add_flag("--json", arguments.json, "Print one JSON object");
  verb.add_flag("-q,--quiet", arguments.quiet, "Print no progress");
}

void require_few_sides(const DiffArguments& arguments) {
  constexpr std::size_t kMostOthers = 2;  // Beside A and B.
  if (arguments.others.size() <= kMostOthers) return;
  throw UsageError("E1345", "at most four files can be compared",
                   fmt::format("leave {} of them out", arguments.others.size() - kMostOthers));
}

void require_page(const DiffArguments& arguments) {
  if (arguments.report.empty()) return;
  std::vector<PathInUse> read = {{"A", arguments.a}};
  const auto add = [&read](const char* what, const std::string& path) {
    if (!path.empty()) read.push_back({what, path});
  };
  add("B", arguments.b);
  add("--measured", arguments.measured);
  for (const std::string& other : arguments.others) add("another side", other);
  require_outputs(read, {{"--report", arguments.report}});
}

// A, B and those after them, each with its letter.
std::vector<RunSide> read_sides(const DiffArguments& arguments, const RunHooks& hooks) {
  const SideRequest of_b = request_of_b(arguments);
  std::vector<SideRequest> requests = {{.path = arguments.a, .overrides = {}}, of_b};
  for (const std::string& other : arguments.others) {
    requests.push_back({.path = other, .overrides = {}});
  }
  std::vector<RunSide> sides;
  for (const SideRequest& request : requests) {
    sides.push_back(read_side(request, hooks));
    for (const std::string& flag : request.overrides) sides.back().file += " --set " + flag;
    sides.back().letter = std::string(1, static_cast<char>('A' + sides.size() - 1));
  }
  return sides;
}

// Two sides give one comparison, more give one for each that is not A.
void print(const std::vector<RunComparison>& comparisons, bool json, std::ostream& out) {
  if (!json) {
    for (const RunComparison& comparison : comparisons) {
      if (&comparison != &comparisons.front()) out << "\n";
      out << diff_text(comparison);
    }
    return;
  }
  out << (comparisons.size() == 1 ? diff_json(comparisons.front()) : comparisons_json(comparisons));
}

void warn_of_trainings(const RunComparison& comparison, std::size_t sides, std::ostream& err) {
  const std::string changes = different_trainings(comparison);
  if (changes.empty()) return;
  err << "warning: " << (sides > 2 ? "A and " + comparison.b.letter : std::string("these"))
      << " are different trainings: " << printable(changes, kWholeText)
      << "; tokens/s per GPU can be compared, steps cannot\n";
}

// `shardsim diff A B [C D]`: compares the time and memory of runs with those of A. Returns 0, or 1
// if a limit is exceeded. Throws Error.
int command_diff(const DiffArguments& arguments, const Console& console) {
  std::vector<ChangeLimit> limits;
  for (const std::string& text : arguments.limits) limits.push_back(parse_limit(text));
  require_few_sides(arguments);
  require_page(arguments);
  Progress progress(console.err, !arguments.quiet);
  RunHooks hooks = console.hooks;
  hooks.on_progress = [&progress] { progress.tick(); };
  const std::vector<RunSide> sides = read_sides(arguments, hooks);
  progress.done();
  std::vector<RunComparison> comparisons;
  for (std::size_t i = 1; i < sides.size(); ++i) {
    comparisons.push_back(compare(sides.front(), sides[i]));
    warn_of_trainings(comparisons.back(), sides.size(), console.err);
  }
  print(comparisons, arguments.json, console.out);
  if (!arguments.report.empty()) {
    write_text(arguments.report, to_html(page_of(sides)), console.err);
  }
  int exit_code = 0;
  for (const RunComparison& comparison : comparisons) {
    for (const ChangeLimit& limit : limits) {
      const std::string breach = breach_of(limit, comparison);
      if (breach.empty()) continue;
      console.err << "failed: " << (sides.size() > 2 ? comparison.b.letter + ": " : "") << breach
                  << "\n";
      exit_code = static_cast<int>(ExitCode::check_failed);
    }
  }
  return exit_code;
}

}  // namespace

Verb diff_verb() {
  return with_arguments<DiffArguments>(
      {.name = "diff",
       .summary = "Explain where time and memory went between two runs, or a run and a measurement",
       .examples = {{"shardsim diff scenarios/verify-gpt-zero2.json "
                     "scenarios/verify-gpt-zero2-offload.json",
                     "two scenarios, or results of runs"},
                    {"shardsim diff plan.json --set parallelism.tp=4", "one, and itself changed"},
                    {"shardsim diff plan.json --measured train.log",
                     "a plan, and Megatron-LM's log"},
                    {"shardsim diff a.json b.json c.json --report layouts.html",
                     "up to four, beside each other on a page"}}},
      add_diff_options, command_diff);
}

}  // namespace shardsim
