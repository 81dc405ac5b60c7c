#include <ostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/kernel/error.hpp"
#include "sim/kernel/metric_rows.hpp"

#include "scenarios/source_text.hpp"
#include "sim/command/verbs.hpp"
#include "sim/console/progress.hpp"
#include "sim/diff/comparison.hpp"
#include "sim/diff/run_side.hpp"

namespace shardsim {

namespace {

struct DiffArguments {
  std::string a;
  std::string b;                       // Empty: A, with the overrides.
  std::vector<std::string> overrides;  // "a.b=value" each, for B.
  std::string measured;                // A real run in B's place; empty: none.
  std::vector<std::string> limits;     // "step_time_s > 2%" each.
  bool json = false;
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
  verb.add_option("--set", arguments.overrides, "Override a field of B: a.b=value; repeatable")
      ->allow_extra_args(false);
  verb.add_option("--measured", arguments.measured,
                  "A real run as B: a log, a trace, or the result of a run on processes");
  verb.add_option("--fail-if", arguments.limits,
                  fmt::format("Exit with 1 if a metric changes by more: \"{} > 2%\"; repeatable",
                              metric::kStepTimeS.name))
      ->allow_extra_args(false);
  verb.add_flag("--json", arguments.json, "Print one JSON object");
}

// `shardsim diff A B`: compares the time and memory of two runs. Returns 0, or 1 if a limit is
// exceeded. Throws Error.
int command_diff(const DiffArguments& arguments, const Console& console) {
  std::vector<ChangeLimit> limits;
  for (const std::string& text : arguments.limits) limits.push_back(parse_limit(text));
  const SideRequest of_b = request_of_b(arguments);
  Progress progress(console.err, true);
  RunHooks hooks = console.hooks;
  hooks.on_progress = [&progress] { progress.tick(); };
  RunSide a = read_side({.path = arguments.a, .overrides = {}}, hooks);
  RunSide b = read_side(of_b, hooks);
  progress.done();
  for (const std::string& flag : of_b.overrides) b.file += " --set " + flag;
  const RunComparison comparison = compare(std::move(a), std::move(b));
  if (const std::string changes = different_trainings(comparison); !changes.empty()) {
    console.err << "warning: these are different trainings: " << printable(changes, kWholeText)
                << "; tokens/s per GPU can be compared, steps cannot\n";
  }
  console.out << (arguments.json ? diff_json(comparison) : diff_text(comparison));
  int exit_code = 0;
  for (const ChangeLimit& limit : limits) {
    const std::string breach = breach_of(limit, comparison);
    if (breach.empty()) continue;
    console.err << "failed: " << breach << "\n";
    exit_code = static_cast<int>(ExitCode::check_failed);
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
                     "a plan, and Megatron-LM's log"}}},
      add_diff_options, command_diff);
}

}  // namespace shardsim
