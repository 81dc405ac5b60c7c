#include "sim/command/command_fix.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "scenarios/json_value.hpp"
#include "scenarios/load.hpp"
#include "scenarios/read_file.hpp"
#include "sim/command/shared_options.hpp"
#include "sim/command/verbs.hpp"
#include "sim/console/output_format.hpp"
#include "sim/console/whole_file.hpp"

namespace shardsim {

namespace {

// Each round corrects at least one mistake, or is the last; nobody makes more mistakes than this.
constexpr int kMaxRounds = 1000;

// Adds the edits of a fix to those that were accepted, unless one reaches into another.
bool take(const Fix& fix, std::vector<TextEdit>& accepted) {
  for (const TextEdit& edit : fix.edits) {
    for (const TextEdit& taken : accepted) {
      const bool apart =
          edit.offset + edit.length <= taken.offset || taken.offset + taken.length <= edit.offset;
      // The order of two insertions at one place would be arbitrary.
      if (!apart || edit.offset == taken.offset) return false;
    }
  }
  accepted.insert(accepted.end(), fix.edits.begin(), fix.edits.end());
  return true;
}

namespace fs = std::filesystem;

struct FixArguments {
  std::vector<std::string> files;
  std::string output;    // The output in place of the file; "-": standard output.
  bool dry_run = false;  // Prints a unified diff and writes nothing.
  bool quiet = false;
  bool json = false;
  bool annotations = false;
};

constexpr std::size_t kContext = 3;

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::size_t length = end == std::string_view::npos ? text.size() : end + 1;
    lines.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return lines;
}

struct DiffLine {
  char mark = ' ';  // ' ', '-' or '+'
  std::string_view text;
};

using DiffLines = std::vector<std::string_view>;

// Rewrites touch few lines and nearly keep their number. So a missing line is searched a little
// further on each side; if it is not found there, it is replaced.
std::vector<DiffLine> compared(const DiffLines& before, const DiffLines& after) {
  constexpr std::size_t kReach = 50;
  std::vector<DiffLine> out;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < before.size() || j < after.size()) {
    if (i < before.size() && j < after.size() && before[i] == after[j]) {
      out.push_back({' ', before[i++]});
      ++j;
      continue;
    }
    // The nearest pair of equal lines ahead, counted on both sides together.
    std::size_t skip_before = before.size() - i;
    std::size_t skip_after = after.size() - j;
    for (std::size_t sum = 1; sum <= kReach; ++sum) {
      bool found = false;
      for (std::size_t ahead = 0; ahead <= sum && !found; ++ahead) {
        const std::size_t at_before = i + ahead;
        const std::size_t at_after = j + sum - ahead;
        if (at_before >= before.size() || at_after >= after.size()) continue;
        if (before[at_before] != after[at_after]) continue;
        skip_before = ahead;
        skip_after = sum - ahead;
        found = true;
      }
      if (found) break;
    }
    for (std::size_t k = 0; k < skip_before; ++k) out.push_back({'-', before[i++]});
    for (std::size_t k = 0; k < skip_after; ++k) out.push_back({'+', after[j++]});
  }
  return out;
}

std::string printed(const DiffLine& line) {
  std::string out = line.mark + std::string(line.text);
  if (out.back() != '\n') out += "\n\\ No newline at end of file\n";
  return out;
}

std::size_t count_but(const std::vector<DiffLine>& lines, std::size_t from, std::size_t to,
                      char mark) {
  return static_cast<std::size_t>(
      std::count_if(lines.begin() + static_cast<std::ptrdiff_t>(from),
                    lines.begin() + static_cast<std::ptrdiff_t>(to),
                    [mark](const DiffLine& line) { return line.mark != mark; }));
}

// "@@ -3,7 +3,7 @@": the places of the lines [from, to); an empty side names the line before it.
std::string header(const std::vector<DiffLine>& lines, std::size_t from, std::size_t to) {
  const std::size_t old_count = count_but(lines, from, to, '+');
  const std::size_t new_count = count_but(lines, from, to, '-');
  return fmt::format("@@ -{},{} +{},{} @@\n",
                     count_but(lines, 0, from, '+') + (old_count > 0 ? 1 : 0), old_count,
                     count_but(lines, 0, from, '-') + (new_count > 0 ? 1 : 0), new_count);
}

// The output of `diff -u` for two texts, three lines of context each, as patch takes it; "" if
// they are equal. `name` follows "a/" and "b/".
std::string unified_diff(const std::string& before, const std::string& after,
                         const std::string& name) {
  if (before == after) return "";
  const std::vector<DiffLine> lines = compared(lines_of(before), lines_of(after));
  std::string out = fmt::format("--- a/{0}\n+++ b/{0}\n", name);
  std::size_t at = 0;
  while (at < lines.size()) {
    if (lines[at].mark == ' ') {
      ++at;
      continue;
    }
    const std::size_t from = at - std::min(at, kContext);
    std::size_t to = at + 1;  // Behind the last change of this part, and its context.
    for (std::size_t k = at; k < lines.size() && k < to + 2 * kContext; ++k) {
      if (lines[k].mark != ' ') to = k + 1;
    }
    at = to;
    to = std::min(lines.size(), to + kContext);
    out += header(lines, from, to);
    for (std::size_t k = from; k < to; ++k) out += printed(lines[k]);
  }
  return out;
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
    // Links are followed, so that the file itself is corrected.
    write_complete(fs::canonical(file), fixed.text, "write it elsewhere with -o");
  }
}

void tell(const std::string& file, const FixedScenario& fixed, bool dry_run, std::ostream& err) {
  for (const AppliedFix& fix : fixed.applied) {
    err << fmt::format("{}:{}:{}: {}\n", printable(file, 200), fix.line, fix.column, fix.message);
  }
  const char* const verdict = fixed.problems ? "some problems cannot be fixed automatically"
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
  app.add_option("-o,--output", arguments.output, "Write to this file instead; - prints it");
  app.add_flag("-q,--quiet", arguments.quiet, "Print nothing unless something is wrong");
  add_output_format(app, arguments.json, arguments.annotations, "Print what is left to do as JSON");
}

// `shardsim fix`: rewrites mistakes with one clear remedy, keeps comments and layout. Returns 0 if
// all files load now; throws the ScenarioError of the mistakes that are left for the user.
int command_fix(const FixArguments& arguments, const Console& console) {
  if (!arguments.output.empty() && (arguments.files.size() > 1 || arguments.dry_run)) {
    throw UsageError("E1385", "-o works with one scenario only",
                     "leave -o out to change the files in place");
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
    put(arguments, file, *text, fixed, console.out);
    if (!arguments.quiet) tell(file, fixed, arguments.dry_run, console.err);
    if (!fixed.problems) continue;
    const std::vector<Problem>& problems = fixed.problems->problems();
    left.insert(left.end(), problems.begin(), problems.end());
    num_dropped += fixed.problems->num_dropped();
  }
  if (!left.empty()) throw ScenarioError(std::move(left), num_dropped);
  if (arguments.json) console.out << "{\n  \"errors\": []\n}\n";
  return 0;
}

}  // namespace

std::string apply_edits(const std::string& text, std::vector<TextEdit> edits) {
  std::ranges::stable_sort(edits, {}, &TextEdit::offset);
  std::string out;
  std::size_t done = 0;
  for (const TextEdit& edit : edits) {
    if (edit.offset < done) continue;
    out += text.substr(done, edit.offset - done) + edit.text;
    done = edit.offset + edit.length;
  }
  return out + text.substr(done);
}

FixedScenario fix_scenario(const std::string& text, const std::string& file) {
  FixedScenario fixed{text, {}, {}};
  for (int round = 0; round < kMaxRounds; ++round) {
    try {
      static_cast<void>(load_scenario_text(fixed.text, file));
      fixed.problems.reset();
      return fixed;
    } catch (const ScenarioError& error) {
      fixed.problems = error;
    }
    std::vector<TextEdit> edits;
    for (const Problem& problem : fixed.problems->problems()) {
      const bool is_fixable = problem.file == file && !problem.fix.edits.empty();
      if (!is_fixable || !take(problem.fix, edits)) continue;
      fixed.applied.push_back({problem.line, problem.column, problem.fix.message});
    }
    if (edits.empty()) return fixed;
    fixed.text = apply_edits(fixed.text, edits);
  }
  return fixed;
}

Verb fix_verb() {
  return with_arguments<FixArguments>(
      {.name = "fix",
       .summary = "Fix obvious mistakes: names of other programs, typing errors, commas",
       .group = VerbGroup::start,
       .examples = {{"shardsim fix plan.json", "rewrites it; comments and layout stay"},
                    {"shardsim fix --dry-run plan.json", "shows what it would do"}}},
      add_fix_options, command_fix);
}

}  // namespace shardsim
