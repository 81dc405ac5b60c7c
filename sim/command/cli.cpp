#include "sim/command/cli.hpp"

#include <algorithm>
#include <array>
#include <iostream>
#include <memory>
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
#include "scenarios/suggest.hpp"
#include "sim/command/program_words.hpp"
#include "sim/command/verbs.hpp"

namespace shardsim {

namespace {

const CLI::App& verb_of(const CLI::App& app) {
  const std::vector<CLI::App*> verbs = app.get_subcommands();
  return verbs.empty() ? app : *verbs.front();
}

std::string help_of(const CLI::App& app) {
  const CLI::App& verb = verb_of(app);
  return &verb == &app ? "\"shardsim --help\" lists verbs and options"
                       : "\"shardsim " + verb.get_name() + " --help\" lists its options";
}

std::vector<std::string> options_of(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::Option* option : verb.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::vector<std::string> verbs_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands({})) names.push_back(verb->get_name());
  return names;
}

// An extra word: a mistyped option, a mistyped verb before a file, or a second file.
UsageError unexpected_word(const CLI::App& app, const std::string& word,
                           const std::vector<std::string>& words) {
  const CLI::App& verb = verb_of(app);
  if (word.substr(0, 1) == "-") {
    const std::string name = word.substr(0, word.find('='));
    const std::string near = nearest(name, options_of(verb));
    return {"E0904", "\"" + name + "\" is not an option of \"shardsim " + verb.get_name() + "\"",
            near.empty() ? help_of(app) : "write \"" + near + "\"; " + help_of(app)};
  }
  const std::string near = nearest(words.front(), verbs_of(app));
  if (!near.empty() && near != words.front()) {
    return {"E0904", "\"" + words.front() + "\" is neither a verb nor the only scenario",
            "write \"shardsim " + near + "\"; the verbs are " + one_of_list(verbs_of(app))};
  }
  return {"E0904", "\"" + word + "\" is one word too many",
          verb.get_name() == "run" ? "run one scenario at a time; \"shardsim check\" takes several"
                                   : help_of(app)};
}

// The likely kind of a file, by its name.
std::string likely_kind(const std::string& verb, const std::string& file) {
  if (verb != "import") return file.ends_with(".csv") ? "schedule" : "chakra";
  if (file.ends_with(".log") || file.ends_with(".sh")) return "megatron";
  if (file.ends_with(".csv")) return "schedule";
  if (file.find("ds_") != std::string::npos || file.find("deepspeed") != std::string::npos) {
    return "deepspeed";
  }
  return file.find("titan") != std::string::npos ? "torchtitan" : "hf";
}

// "import FILE" and "import hf": the kind or the file is missing, and the word that is there is
// taken for the kind. The kinds are the option's description.
UsageError missing_kind(const CLI::App& verb, const CLI::Option& kind) {
  const std::string word = kind.results().empty() ? std::string() : kind.results().front();
  const std::string start = "shardsim " + verb.get_name() + " ";
  if (kind.get_description().find("\"" + word + "\"") != std::string::npos) {
    return {"E0905", "no file is given", "name it: " + start + word + " FILE"};
  }
  return {"E0905",
          "it is not said what " + word + (verb.get_name() == "import" ? " is" : " becomes"),
          "say what it " + std::string(verb.get_name() == "import" ? "is" : "becomes") +
              " first: " + start + likely_kind(verb.get_name(), word) + " " + word +
              "; the kinds are " + kind.get_description()};
}

ScenarioError as_list(const Error& error) {
  Problem problem;
  problem.code = error.code();
  problem.message = error.what();
  problem.help = error.fix();
  return {{problem}, 0};
}

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
  const auto first = first_word(words);
  const bool named =
      first != words.end() && std::ranges::find(verbs, *first, &Verb::name) != verbs.end();
  const bool global = std::all_of(words.begin(), words.end(), [](const std::string& word) {
    return word == "-h" || word == "--help" || word == "--version";
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
  app.set_version_flag("--version", "shardsim " + std::string(version()));
  add_color(app, color);
  declare_verbs(app, verbs);
  for (CLI::App* verb : app.get_subcommands({})) add_color(*verb, color);
}

int run_verb(const Verb& verb, const Console& console) {
  try {
    const int exit_code = verb.run(console);
    console.out.flush();
    if (console.out) return exit_code;
    return report(
        UsageError("E0906", "cannot write to standard output; what was printed is not complete",
                   "check the space left, or the program that reads"),
        ErrorForm::text, console.out, console.err);
  } catch (const Error& error) {
    return report(error, verb.error_form(), console.out, console.err);
  } catch (const std::exception& error) {
    console.err << "error[E7000]: " << error.what() << "\n   = help: this is a bug of shardsim; "
                << "please report it with the scenario\n";
    return static_cast<int>(ExitCode::internal);
  }
}

}  // namespace

UsageError usage_error(const CLI::App& app, const CLI::ParseError& error,
                       const std::vector<std::string>& words) {
  const CLI::App& verb = verb_of(app);
  const std::vector<std::string> left = app.remaining(true);
  if (!left.empty() && error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    return unexpected_word(app, left.front(), words);
  }
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError)) {
    // CLI11 looks for missing words before it looks for extra ones.
    const auto option = std::find_if(left.begin(), left.end(), [](const std::string& word) {
      return word.size() > 1 && word.front() == '-';
    });
    if (option != left.end()) return unexpected_word(app, *option, words);
    const std::string missing = error.what();  // "shell is required"
    const bool without_verb = &verb == &app || verb.get_name() == "run";
    if (!without_verb && missing.rfind("file", 0) != 0) {
      return {"E0905",
              "\"shardsim " + verb.get_name() + "\" needs \"" +
                  missing.substr(0, missing.find(' ')) + "\"",
              help_of(app)};
    }
    if (const CLI::Option* kind = verb.get_option_no_throw("kind"))
      return missing_kind(verb, *kind);
    return {"E0905", "no scenario is given",
            "name a file: \"shardsim " + (without_verb ? std::string() : verb.get_name() + " ") +
                "scenarios/quickstart.json\"; \"shardsim demo\" needs none; " + help_of(app)};
  }
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ArgumentMismatch)) {
    const std::string text = error.what();
    return {"E0904", "\"" + text.substr(0, text.find(':')) + "\" needs a value", help_of(app)};
  }
  return {"E0904", error.what(), help_of(app)};
}

int report(const Error& error, ErrorForm form, std::ostream& out, std::ostream& err) {
  const auto* scenario = dynamic_cast<const ScenarioError*>(&error);
  if (form != ErrorForm::text) {
    const ScenarioError listed = scenario != nullptr ? *scenario : as_list(error);
    out << (form == ErrorForm::json ? listed.to_json() + "\n" : listed.to_annotations());
  } else if (scenario != nullptr) {
    err << scenario->render_all();
  } else {
    err << "error[" << error.code() << "]: " << printable(error.what(), kWholeText) << "\n";
    if (!error.fix().empty()) err << "   = help: " << printable(error.fix(), kWholeText) << "\n";
  }
  return static_cast<int>(error.exit_code());
}

std::vector<Verb> all_verbs() {
  return {
      run_verb(),      demo_verb(),       init_verb(),       fix_verb(),    plan_verb(),
      sweep_verb(),    merge_verb(),      diff_verb(),       import_verb(), export_verb(),
      replay_verb(),   torch_verb(),      presets_verb(),    schema_verb(), check_verb(),
      schedule_verb(), explain_verb(),    collective_verb(), doctor_verb(), calibrate_verb(),
      validate_verb(), completion_verb(), man_verb(),
  };
}

int run_command(int argc, const char* const* argv, std::ostream& out, std::ostream& err,
                bool terminal, const RunHooks& hooks) {
  CLI::App app("Simulates and verifies the parallelism strategies that train large models.",
               "shardsim");
  const std::vector<Verb> verbs = all_verbs();
  std::string color = "auto";
  build(app, verbs, color);
  std::vector<std::string> words = with_verb(argc, argv, verbs);
  const std::vector<std::string> passed_on = cut_passed_on(app, verbs, words);
  try {
    app.parse(
        std::vector<std::string>(words.rbegin(), words.rend()));  // CLI11 takes them from the back.
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error, out, err);  // --help and --version
    return report(usage_error(app, error, {argv + 1, argv + argc}), ErrorForm::text, out, err);
  }
  const Console console{.in = std::cin,
                        .out = out,
                        .err = err,
                        .color = color == "always" || (color == "auto" && terminal),
                        .words = {argv, argv + argc},
                        .passed_on = passed_on,
                        .hooks = hooks};
  const auto asked = std::find_if(verbs.begin(), verbs.end(),
                                  [&](const Verb& verb) { return app.got_subcommand(verb.name); });
  return run_verb(*asked, console);
}

}  // namespace shardsim
