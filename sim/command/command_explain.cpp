#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "scenarios/suggest.hpp"
#include "sim/command/verbs.hpp"
#include "sim/explore/codes_json.hpp"

#include "sim/harness/codes.hpp"

namespace shardsim {

namespace {

std::string upper(std::string word) {
  for (char& c : word) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return word;
}

UsageError unknown(const std::string& code) {
  std::vector<std::string> known;
  for (const CodeEntry& entry : all_codes()) known.emplace_back(entry.code);
  const std::string near = nearest(code, known);
  return {"E1205", "there is no code \"" + code + "\"",
          (near.empty() ? std::string() : "did you mean " + near + "? ") +
              "\"shardsim explain\" lists all"};
}

// The error itself gives the remedy, with the values at hand; this entry has only its subject.
CodeEntry entry_of_error(const std::string& code, const char* family) {
  return {code.c_str(), family, "The error itself says what is wrong, with the values.",
          "The error itself says what to do, after \"= help:\".",
          "shardsim check FILE shows all errors of a scenario, with their places."};
}

CodeEntry entry_of(const std::string& code) {
  if (const CodeEntry* const entry = find_code(code)) return *entry;
  if (const char* const family = error_family(code)) return entry_of_error(code, family);
  throw unknown(code);
}

std::string text_of(const CodeEntry& entry) {
  const char* const family = error_family(entry.code);
  if (family == nullptr) return explain(entry);
  return fmt::format(
      "{}: one of the errors about {}.\n\n  The error itself says what is wrong, with the values, "
      "and what to do (\"= help:\").\n",
      entry.code, family);
}

std::string list_of_all() {
  std::string text;
  std::size_t width = 0;
  for (const CodeEntry& entry : all_codes()) {
    width = std::max(width, std::string_view(entry.code).size());
  }
  for (const CodeEntry& entry : all_codes()) {
    text += fmt::format("{:<{}}  {}\n", entry.code, width, entry.meaning);
  }
  return text;
}

struct ExplainArguments {
  std::vector<std::string> codes;
  bool json = false;
};

// `shardsim explain CODE...`: the meaning of codes of diagnoses; without codes, all in one line
// each. With --json the entries as an array. Returns 0. Throws UsageError (E1205) for an unknown
// code, with the nearest one.
int command_explain(const ExplainArguments& arguments, const Console& console) {
  const std::vector<std::string>& codes = arguments.codes;
  if (codes.empty()) {
    console.out << (arguments.json ? to_json(all_codes()) : list_of_all());
    return 0;
  }
  std::vector<std::string> names;  // Entries point to them.
  names.reserve(codes.size());
  std::vector<CodeEntry> entries;
  for (const std::string& code : codes) {
    names.push_back(upper(code));
    entries.push_back(entry_of(names.back()));
  }
  std::string text;
  for (const CodeEntry& entry : entries) text += (text.empty() ? "" : "\n") + text_of(entry);
  console.out << (arguments.json ? to_json(entries) : text);
  return 0;
}

}  // namespace

Verb explain_verb() {
  return with_arguments<ExplainArguments>(
      {.name = "explain",
       .summary = "Explain the code of a report, or list all codes",
       .group = VerbGroup::run,
       .examples = {{"shardsim explain DEADLOCK", "what the code of a report means"},
                    {"shardsim explain", "all codes"}}},
      [](CLI::App& app, ExplainArguments& arguments) {
        app.add_option("code", arguments.codes, "DEADLOCK, BUF_WRITE, E0203, ...");
        app.add_flag("--json", arguments.json, "Print them as JSON");
      },
      command_explain);
}

}  // namespace shardsim
