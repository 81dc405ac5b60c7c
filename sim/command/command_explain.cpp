#include <algorithm>
#include <array>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/kernel/error.hpp"

#include "scenarios/suggest.hpp"
#include "sim/command/verbs.hpp"

#include "sim/harness/codes.hpp"

namespace shardsim {

namespace {

struct Family {
  std::string_view prefix;
  const char* about;
};

constexpr std::array kFamilies = {
    Family{"E00", "text that cannot be read as JSON, or as the file that it should be"},
    Family{"E01", "keys and values of a scenario, each by itself"},
    Family{"E02", "settings of a scenario that do not go together"},
    Family{"E03", "limits: memory, ranks, numbers that become too large"},
    Family{"E04", "devices, networks and what NCCL can choose on them"},
    Family{"E05", "tensors and the data that operations get"},
    Family{"E06", "models and optimizers"},
    Family{"E07", "layouts, pipelines and how gradients are synchronized"},
    Family{"E08", "checkpoints"},
    Family{"E09", "the command line and the files that it names"},
    Family{"E10", "real processes, MPI and NCCL"},
    Family{"E12", "checking of programs, exploration and replay"},
    Family{"E13", "plans of many runs: sweeps, searches, comparisons, imports and exports"},
    Family{"E14", "reports"},
    Family{"E70", "bugs of shardsim itself"},
};
constexpr std::size_t kDigits = 4;

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

// An array of objects, and a line break.
std::string to_json(std::span<const CodeEntry> entries) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const CodeEntry& entry : entries) {
    all.push_back({{"code", entry.code},
                   {"meaning", entry.meaning},
                   {"causes", entry.causes},
                   {"fix", entry.fix},
                   {"example", entry.example}});
  }
  return all.dump(2) + "\n";
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

const char* error_family(std::string_view code) {
  const bool is_error = code.size() == kDigits + 1 && code.front() == 'E' &&
                        std::all_of(code.begin() + 1, code.end(),
                                    [](char digit) { return digit >= '0' && digit <= '9'; });
  if (!is_error) return nullptr;
  const auto* const found =
      std::find_if(kFamilies.begin(), kFamilies.end(),
                   [&](const Family& family) { return code.starts_with(family.prefix); });
  return found == kFamilies.end() ? nullptr : found->about;
}

Verb explain_verb() {
  return with_arguments<ExplainArguments>(
      {.name = "explain",
       .summary = "Explain the code of a report, or list all codes",
       .group = VerbGroup::run,
       .examples = {{"shardsim explain DEADLOCK", "what the code of a report means"},
                    {"shardsim explain", "all codes"}}},
      [](CLI::App& app, ExplainArguments& arguments) {
        app.add_option("code", arguments.codes, "DEADLOCK, BUF_WRITE, E0203, ...");
        app.add_flag("--json", arguments.json, "Print the codes as JSON");
      },
      command_explain);
}

}  // namespace shardsim
