#include <algorithm>
#include <array>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/kernel/error.hpp"

#include "scenarios/suggest.hpp"
#include "sim/command/error_table.hpp"
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
    Family{"E90", "runs that were stopped"},
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
  for (const ErrorEntry& entry : error_table()) known.emplace_back(entry.code);
  const std::string near = nearest(code, known);
  return {"E1205", "there is no code \"" + code + "\"",
          (near.empty() ? std::string() : "did you mean " + near + "? ") +
              "\"shardsim explain\" lists all"};
}

// A code of a report, or of an error.
struct Explained {
  std::string_view code;
  std::string_view meaning;
  std::string_view causes;  // Those of an error are its family: its message names the values.
  std::string_view fix;
  std::string_view example;
  bool is_command = false;
};

Explained explained(const CodeEntry& entry) {
  return {entry.code, entry.meaning, entry.causes, entry.fix, entry.example, false};
}

Explained explained(const ErrorEntry& entry) {
  return {entry.code, entry.meaning, error_family(entry.code),
          entry.fix,  entry.example, has_command(entry)};
}

Explained entry_of(const std::string& code) {
  if (const CodeEntry* const entry = find_code(code)) return explained(*entry);
  if (const ErrorEntry* const entry = find_error(code)) return explained(*entry);
  throw unknown(code);
}

std::vector<Explained> all_entries() {
  std::vector<Explained> entries;
  for (const CodeEntry& entry : all_codes()) entries.push_back(explained(entry));
  for (const ErrorEntry& entry : error_table()) entries.push_back(explained(entry));
  return entries;
}

std::string text_of(const Explained& entry) {
  if (const CodeEntry* const code = find_code(entry.code)) return explain(*code);
  std::string text = fmt::format("{}: {}\n\n  about    {}\n  fix      {}\n  example  {}\n",
                                 entry.code, entry.meaning, entry.causes, entry.fix, entry.example);
  if (entry.is_command && entry.example.find("scenario.json") != std::string_view::npos) {
    text += "           (scenario.json is what \"shardsim init\" writes)\n";
  }
  return text;
}

std::string list_of_all() {
  std::string text;
  std::size_t width = 0;
  const std::vector<Explained> entries = all_entries();
  for (const Explained& entry : entries) width = std::max(width, entry.code.size());
  for (const Explained& entry : entries) {
    text += fmt::format("{:<{}}  {}\n", entry.code, width, entry.meaning);
  }
  return text;
}

// {"codes": [...]}, and a line break.
std::string to_json(const std::vector<Explained>& entries) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Explained& entry : entries) {
    all.push_back({{"code", entry.code},
                   {"meaning", entry.meaning},
                   {"causes", entry.causes},
                   {"fix", entry.fix},
                   {"example", entry.example}});
  }
  return nlohmann::ordered_json{{"codes", std::move(all)}}.dump(2) + "\n";
}

struct ExplainArguments {
  std::vector<std::string> codes;
  bool json = false;
};

// `shardsim explain CODE...`: the meaning of codes of reports and of errors; without codes, all in
// one line each. With --json the entries as a list in an object. Returns 0. Throws UsageError
// (E1205) for an unknown code, with the nearest one.
int command_explain(const ExplainArguments& arguments, const Console& console) {
  if (arguments.codes.empty()) {
    console.out << (arguments.json ? to_json(all_entries()) : list_of_all());
    return 0;
  }
  std::vector<Explained> entries;
  for (const std::string& code : arguments.codes) entries.push_back(entry_of(upper(code)));
  std::string text;
  for (const Explained& entry : entries) text += (text.empty() ? "" : "\n") + text_of(entry);
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
       .summary = "Explain the code of a report or an error, or list all codes",
       .group = VerbGroup::run,
       .examples = {{"shardsim explain DEADLOCK", "what the code of a report means"},
                    {"shardsim explain E0107",
                     "an error: its fix, and a command that ends with it"},
                    {"shardsim explain", "all codes"}}},
      [](CLI::App& app, ExplainArguments& arguments) {
        app.add_option("code", arguments.codes, "DEADLOCK, BUF_WRITE, E0203, ...");
        app.add_flag("--json", arguments.json, "Print the codes as JSON");
      },
      command_explain);
}

}  // namespace shardsim
