#include "sim/command/help.hpp"

#include <algorithm>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace shardsim {

namespace {

using Examples = std::vector<std::pair<std::string, std::string>>;

constexpr std::size_t kFirstExamples = 3;
constexpr std::size_t kNameWidth = 14;    // For verbs; options need the usual 30.
constexpr std::size_t kLongestLine = 48;  // For a command with its purpose beside it.

constexpr const char* kExitCodes = R"(
Exit codes: 0 ok, 1 a check or expectation failed, 2 bad usage or scenario, 3 does not fit,
4 deadlock or mismatched communication, 5 backend failure, 70 a bug of shardsim, 130 interrupted.
"shardsim VERB --help" tells more of a verb. Nothing is ever asked while it runs.)";

const char* title_of(VerbGroup group) {
  switch (group) {
    case VerbGroup::start:
      return "Begin";
    case VerbGroup::run:
      return "Run and check one scenario";
    case VerbGroup::plan:
      return "Plan with many runs, and exchange";
    case VerbGroup::measure:
      return "Hold against real machines";
    case VerbGroup::shell:
      return "Shell and manual";
  }
  return "";
}

std::string examples_text(const Examples& examples) {
  std::size_t width = 0;
  for (const auto& [command, purpose] : examples) {
    if (command.size() <= kLongestLine) width = std::max(width, command.size());
  }
  std::string out = "Examples:\n";
  for (const auto& [command, purpose] : examples) {
    // A long command has the line for itself.
    out += command.size() <= kLongestLine ? fmt::format("  {:<{}}  {}\n", command, width, purpose)
                                          : fmt::format("  {}\n      {}\n", command, purpose);
  }
  return out;
}

// One each of the verbs that a newcomer wants first, as far as there are such.
Examples first_examples(const std::vector<Verb>& verbs) {
  Examples examples;
  for (const char* name : {"demo", "run", "plan", "check"}) {
    const auto verb = std::find_if(verbs.begin(), verbs.end(),
                                   [name](const Verb& known) { return known.name == name; });
    if (verb == verbs.end() || verb->examples.empty()) continue;
    if (examples.size() < kFirstExamples) examples.push_back(verb->examples.front());
  }
  return examples;
}

class CommandHelp : public CLI::Formatter {
 public:
  explicit CommandHelp(std::string examples) : examples_(std::move(examples)) {
    column_width(kNameWidth);
  }

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    return examples_ + "\n" + make_description(app) + make_usage(app, std::move(name)) +
           make_subcommands(app, mode) + make_groups(app, mode) + make_footer(app);
  }

  std::string make_usage(const CLI::App* /*app*/, std::string name) const override {
    return fmt::format("Usage: {0} FILE [OPTIONS]\n       {0} VERB [OPTIONS] ...\n", name);
  }

 private:
  std::string examples_;
};

}  // namespace

void declare_verbs(CLI::App& app, const std::vector<Verb>& verbs) {
  const auto of_verbs = std::make_shared<CLI::Formatter>();
  std::vector<Verb> in_groups = verbs;
  std::stable_sort(in_groups.begin(), in_groups.end(),
                   [](const Verb& a, const Verb& b) { return a.group < b.group; });
  for (const Verb& verb : in_groups) {
    CLI::App& declared = *app.add_subcommand(verb.name, verb.summary);
    declared.group(title_of(verb.group));
    declared.formatter(of_verbs);
    if (!verb.examples.empty()) declared.footer("\n" + examples_text(verb.examples));
    verb.add_options(declared);
  }
  app.formatter(std::make_shared<CommandHelp>(examples_text(first_examples(verbs))));
  app.footer(kExitCodes);
  app.require_subcommand(1);
}

}  // namespace shardsim
