#include "sim/command/command_fix.hpp"

#include <filesystem>
#include <memory>
#include <ostream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "scenarios/json_value.hpp"
#include "scenarios/read_file.hpp"
#include "sim/command/fix_scenario.hpp"
#include "sim/command/unified_diff.hpp"
#include "sim/console/output_format.hpp"
#include "sim/console/write_text.hpp"

namespace shardsim {

namespace {

namespace fs = std::filesystem;

// Links are followed, so that the file itself is corrected.
void replace(const std::string& file, const std::string& text) {
  write_complete(fs::canonical(file), text, "write it elsewhere with -o");
}

void put(const FixArguments& arguments, const std::string& file, const std::string& before,
         const FixedScenario& fixed, std::ostream& out) {
  if (arguments.dry_run) {
    if (!arguments.json) out << unified_diff(before, fixed.text, printable(file, 4096));
  } else if (arguments.output == "-") {
    out << fixed.text;
  } else if (!arguments.output.empty()) {
    write_complete(arguments.output, fixed.text, "choose another with -o");
  } else if (fixed.text != before) {
    replace(file, fixed.text);
  }
}

void tell(const std::string& file, const FixedScenario& fixed, bool dry_run, std::ostream& err) {
  for (const AppliedFix& fix : fixed.applied) {
    err << fmt::format("{}:{}:{}: {}\n", printable(file, 200), fix.line, fix.column, fix.message);
  }
  const char* const verdict = fixed.problems ? "not all that is wrong can be fixed without asking"
                              : dry_run      ? "it would load"
                                             : "it loads";
  err << fmt::format("{}: {}; {}\n", printable(file, 200),
                     fixed.applied.empty()
                         ? std::string("nothing changed")
                         : fmt::format("{} {} {}", fixed.applied.size(),
                                       fixed.applied.size() == 1 ? "place" : "places",
                                       dry_run ? "to change" : "changed"),
                     verdict);
}

void add_fix_options(CLI::App& app, FixArguments& arguments) {
  app.add_option("file", arguments.files, "Scenarios")->required();
  app.add_flag("--dry-run,--diff", arguments.dry_run,
               "Print what would change as a unified diff, and write nothing");
  app.add_option("-o,--output", arguments.output, "Write there and not into the file; - prints it");
  app.add_flag("-q,--quiet", arguments.quiet, "Print nothing unless something is wrong");
  add_output_format(app, arguments.json, arguments.annotations, "Print what is left to do as JSON");
}

}  // namespace

int command_fix(const FixArguments& arguments, std::ostream& out, std::ostream& err) {
  if (!arguments.output.empty() && (arguments.files.size() > 1 || arguments.dry_run)) {
    throw UsageError("E1385", "-o takes one scenario, and writes it",
                     "leave -o out to change files where they are");
  }
  std::vector<Problem> left;
  std::size_t num_dropped = 0;
  for (const std::string& file : arguments.files) {
    ProblemList unread;
    const auto text = read_regular_file(file, JsonLimits{}.max_bytes, unread);
    if (!text) {
      left.insert(left.end(), unread.problems().begin(), unread.problems().end());
      continue;
    }
    const FixedScenario fixed = fix_scenario(*text, file);
    put(arguments, file, *text, fixed, out);
    if (!arguments.quiet) tell(file, fixed, arguments.dry_run, err);
    if (!fixed.problems) continue;
    const std::vector<Problem>& problems = fixed.problems->problems();
    left.insert(left.end(), problems.begin(), problems.end());
    num_dropped += fixed.problems->num_dropped();
  }
  if (!left.empty()) throw ScenarioError(std::move(left), num_dropped);
  if (arguments.json) out << "[]\n";
  return 0;
}

Verb fix_verb() {
  const auto arguments = std::make_shared<FixArguments>();
  return {.name = "fix",
          .summary = "Correct what leaves no doubt: names of other programs, slips, commas",
          .add_options = [arguments](CLI::App& app) { add_fix_options(app, *arguments); },
          .run =
              [arguments](const Console& console) {
                return command_fix(*arguments, console.out, console.err);
              },
          .wants_json = [arguments] { return arguments->json; },
          .wants_annotations = [arguments] { return arguments->annotations; },
          .group = VerbGroup::start,
          .examples = {{"shardsim fix plan.json", "rewrites it; comments and layout stay"},
                       {"shardsim fix --dry-run plan.json", "shows what it would do"}}};
}

}  // namespace shardsim
