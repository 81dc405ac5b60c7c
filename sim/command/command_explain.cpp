#include <algorithm>
#include <memory>
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

void list_all(std::ostream& out) {
  std::size_t width = 0;
  for (const CodeEntry& entry : all_codes()) {
    width = std::max(width, std::string_view(entry.code).size());
  }
  for (const CodeEntry& entry : all_codes()) {
    out << fmt::format("{:<{}}  {}\n", entry.code, width, entry.meaning);
  }
}

// `shardsim explain CODE...`: the meaning of codes of diagnoses; without codes, all in one line
// each. `json`: the entries as an array. Returns 0. Throws UsageError (E1205) for an unknown code,
// with the nearest one.
int command_explain(const std::vector<std::string>& codes, bool json, std::ostream& out) {
  if (codes.empty()) {
    if (json) {
      out << to_json(all_codes());
    } else {
      list_all(out);
    }
    return 0;
  }
  std::vector<std::string> names;  // Entries point to them.
  names.reserve(codes.size());
  std::vector<CodeEntry> entries;
  for (const std::string& code : codes) {
    names.push_back(upper(code));
    entries.push_back(entry_of(names.back()));
  }
  if (json) {
    out << to_json(entries);
    return 0;
  }
  for (std::size_t i = 0; i < entries.size(); ++i) {
    out << (i == 0 ? "" : "\n") << text_of(entries[i]);
  }
  return 0;
}

}  // namespace

Verb explain_verb() {
  struct Arguments {
    std::vector<std::string> codes;
    bool json = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  return {.name = "explain",
          .summary = "Explain the code of a report, or list all codes",
          .add_options =
              [arguments](CLI::App& app) {
                app.add_option("code", arguments->codes, "DEADLOCK, BUF_WRITE, E0203, ...");
                app.add_flag("--json", arguments->json, "Print them as JSON");
              },
          .run =
              [arguments](const Console& console) {
                return command_explain(arguments->codes, arguments->json, console.out);
              },
          .wants_json = [arguments] { return arguments->json; },
          .group = VerbGroup::run,
          .examples = {{"shardsim explain DEADLOCK", "what the code of a report means"},
                       {"shardsim explain", "all codes"}}};
}

}  // namespace shardsim
