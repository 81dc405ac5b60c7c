#include "sim/command/cli.hpp"

#include <algorithm>
#include <array>
#include <iostream>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/kernel/error.hpp"
#include "sim/kernel/version.hpp"

#include "scenarios/scenario_error.hpp"
#include "scenarios/source_text.hpp"
#include "scenarios/wrapped_text.hpp"
#include "sim/command/program_words.hpp"
#include "sim/command/usage_error.hpp"
#include "sim/command/verbs.hpp"
#include "sim/console/junit.hpp"

namespace shardsim {

namespace {

using Examples = std::vector<std::pair<std::string, std::string>>;

constexpr std::size_t kFirstExamples = 3;
constexpr std::size_t kNameWidth = 14;    // For verbs; options need the usual 30.
constexpr std::size_t kLongestLine = 48;  // For a command with its purpose beside it.

constexpr const char* kExitCodes = R"(
Exit codes: 0 ok, 1 a check or expectation failed, 2 bad usage or scenario, 3 does not fit,
4 deadlock or mismatched communication, 5 backend failure, 70 a bug of shardsim, 130 interrupted.
"shardsim VERB --help" describes a verb. shardsim asks nothing while it runs.)";

// In the order of VerbGroup.
constexpr std::array kGroupTitles = {"Begin", "Run and check one scenario",
                                     "Plan with many runs, and exchange",
                                     "Compare with real machines", "Shell and manual"};

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
    const auto verb = std::ranges::find(verbs, name, &Verb::name);
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

// Declares the verbs on the command `app`, each in its group and with its examples below its
// options; --help of the command itself begins with three of them.
void declare_verbs(CLI::App& app, const std::vector<Verb>& verbs) {
  const auto of_verbs = std::make_shared<CLI::Formatter>();
  std::vector<Verb> in_groups = verbs;
  std::ranges::stable_sort(in_groups, {}, &Verb::group);
  for (const Verb& verb : in_groups) {
    CLI::App& declared = *app.add_subcommand(verb.name, verb.summary);
    declared.group(kGroupTitles.at(static_cast<std::size_t>(verb.group)));
    declared.formatter(of_verbs);
    if (!verb.examples.empty()) declared.footer("\n" + examples_text(verb.examples));
    verb.add_options(declared);
  }
  app.formatter(std::make_shared<CommandHelp>(examples_text(first_examples(verbs))));
  app.footer(kExitCodes);
  app.require_subcommand(1);
}

// The first word that is no option. The value of --color is none, either.
std::vector<std::string>::iterator first_word(std::vector<std::string>& words) {
  auto first = words.begin();
  while (first != words.end() && first->substr(0, 1) == "-") {
    const bool has_value = *first == "--color" && first + 1 != words.end();
    first += has_value ? 2 : 1;
  }
  return first;
}

// "shardsim FILE" is "shardsim run FILE": put the verb in where the first word is none.
std::vector<std::string> with_verb(int argc, const char* const* argv,
                                   const std::vector<Verb>& verbs) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words.front() == "help") words.front() = "--help";
  if (!words.empty() && words.front() == "version") words.front() = "--version";
  const auto first = first_word(words);
  const bool named =
      first != words.end() && std::ranges::find(verbs, *first, &Verb::name) != verbs.end();
  const bool global = std::all_of(words.begin(), words.end(), [](const std::string& word) {
    return word == "-h" || word == "--help" || word == "--version" || word == "-v";
  });
  if (!named && !global) words.insert(words.begin(), "run");
  return words;
}

// Cuts off what belongs to a program that the verb starts, and returns it.
std::vector<std::string> cut_passed_on(const CLI::App& app, const std::vector<Verb>& verbs,
                                       std::vector<std::string>& words) {
  const auto named = first_word(words);
  if (named == words.end()) return {};
  const auto verb = std::ranges::find(verbs, *named, &Verb::name);
  if (verb == verbs.end() || !verb->starts_program) return {};
  const std::vector<std::string> passed_on =
      program_words(*app.get_subcommand(verb->name), {named + 1, words.end()});
  words.resize(words.size() - passed_on.size());
  return passed_on;
}

void add_color(CLI::App& app, std::string& color) {
  app.add_option("--color", color, "Color of standard output; auto: on a terminal only")
      ->type_name("WHEN")
      ->check(CLI::IsMember({"auto", "always", "never"}));
}

// Options before and after the verb.
void build(CLI::App& app, const std::vector<Verb>& verbs, std::string& color) {
  app.set_version_flag("-v,--version", "shardsim " + std::string(version()));
  add_color(app, color);
  declare_verbs(app, verbs);
  for (CLI::App* verb : app.get_subcommands({})) add_color(*verb, color);
}

// All problems of a failure, in the form of a scenario's.
ScenarioError as_list(const Error& error) {
  if (const auto* const scenario = dynamic_cast<const ScenarioError*>(&error)) return *scenario;
  Problem problem;
  problem.code = error.code();
  problem.message = error.what();
  problem.help = error.fix();
  return {{problem}, 0};
}

std::string junit_of(const ScenarioError& error) {
  std::vector<JunitCase> cases;
  for (const Problem& problem : error.problems()) cases.push_back(case_of(problem));
  return junit_xml("shardsim", cases);
}

std::string text_of(const Error& error, std::size_t width) {
  if (const auto* const scenario = dynamic_cast<const ScenarioError*>(&error)) {
    return scenario->render_all(width);
  }
  constexpr std::size_t kMessageIndent = 4;
  constexpr std::size_t kHelpIndent = 11;
  const std::string text = wrapped(
      "error[" + error.code() + "]: ", printable(error.what(), kWholeText), width, kMessageIndent);
  if (error.fix().empty()) return text;
  return text + wrapped("   = help: ", printable(error.fix(), kWholeText), width, kHelpIndent);
}

// Wider pages are hard to read; output to a file has the width of the guide's pages.
std::size_t page_width(const Screen& screen) {
  constexpr std::size_t kWidest = 100;
  return screen.out_width == 0 ? kWidest : std::min(screen.out_width, kWidest);
}

int run_verb(const Verb& verb, const Console& console, std::size_t error_width) {
  const auto failed = [&](const Error& error, ErrorForm form) {
    return report(error, form, console.out, console.err, error_width);
  };
  try {
    const int exit_code = verb.run(console);
    console.out.flush();
    if (console.out) return exit_code;
    return failed(
        UsageError("E0906", "cannot write to standard output; what was printed is not complete",
                   "check the space left, or the program that reads"),
        ErrorForm::text);
  } catch (const Error& error) {
    return failed(error, verb.error_form());
  } catch (const std::exception& error) {
    return failed(Error(ExitCode::internal, "E7000", error.what(),
                        "this is a bug of shardsim; please report it with the scenario"),
                  verb.error_form());
  }
}

}  // namespace

int report(const Error& error, ErrorForm form, std::ostream& out, std::ostream& err,
           std::size_t width) {
  switch (form) {
    case ErrorForm::json:
      out << as_list(error).to_json() << "\n";
      break;
    case ErrorForm::annotations:
      out << as_list(error).to_annotations();
      break;
    case ErrorForm::junit:
      out << junit_of(as_list(error));
      err << text_of(error, width);  // The XML goes to a file, and the log of a job shows this.
      break;
    case ErrorForm::text:
      err << text_of(error, width);
  }
  return static_cast<int>(error.exit_code());
}

std::vector<Verb> all_verbs() {
  return {
      run_verb(),    demo_verb(),      init_verb(),     fix_verb(),        plan_verb(),
      serve_verb(),  sweep_verb(),     merge_verb(),    diff_verb(),       sensitivity_verb(),
      import_verb(), export_verb(),    replay_verb(),   torch_verb(),      presets_verb(),
      schema_verb(), check_verb(),     schedule_verb(), explain_verb(),    collective_verb(),
      doctor_verb(), calibrate_verb(), validate_verb(), completion_verb(), man_verb(),
  };
}

int run_command(int argc, const char* const* argv, std::ostream& out, std::ostream& err,
                bool terminal, const RunHooks& hooks, const Screen& screen) {
  CLI::App app("Simulates and verifies the parallelism strategies that train large models.",
               "shardsim");
  const std::vector<Verb> verbs = all_verbs();
  std::string color = "auto";
  build(app, verbs, color);
  const std::vector<std::string> given(argv + 1, argv + argc);
  std::vector<std::string> words = with_verb(argc, argv, verbs);
  const std::vector<std::string> passed_on = cut_passed_on(app, verbs, words);
  const ErrorForm form = form_in(words);
  if (words.size() > given.size()) {  // The verb run was put in.
    const std::optional<UsageError> unknown = unknown_verb(given, verbs);
    if (unknown) return report(*unknown, form, out, err, screen.err_width);
  }
  try {
    app.parse(
        std::vector<std::string>(words.rbegin(), words.rend()));  // CLI11 takes them from the back.
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error, out, err);  // --help and --version
    return report(usage_error(app, error, given), form, out, err, screen.err_width);
  }
  const Console console{.in = std::cin,
                        .out = out,
                        .err = err,
                        .color = color == "always" || (color == "auto" && terminal),
                        .width = page_width(screen),
                        .words = {argv, argv + argc},
                        .passed_on = passed_on,
                        .hooks = hooks};
  const auto asked = std::find_if(verbs.begin(), verbs.end(),
                                  [&](const Verb& verb) { return app.got_subcommand(verb.name); });
  return run_verb(*asked, console, screen.err_width);
}

}  // namespace shardsim
