#include "sim/command/cli.hpp"

#include <algorithm>
#include <iostream>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "sim/kernel/error.hpp"
#include "sim/kernel/version.hpp"

#include "sim/command/help.hpp"
#include "sim/command/usage.hpp"
#include "sim/command/verbs.hpp"

namespace shardsim {

namespace {

// "shardsim FILE" is "shardsim run FILE": put the verb in where the first word is none.
std::vector<std::string> with_verb(int argc, const char* const* argv,
                                   const std::vector<Verb>& verbs) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words.front() == "help") words.front() = "--help";
  // The value of --color is no verb.
  auto first = words.begin();
  while (first != words.end() && first->substr(0, 1) == "-") {
    const bool has_value = *first == "--color" && first + 1 != words.end();
    first += has_value ? 2 : 1;
  }
  const bool named =
      first != words.end() && std::any_of(verbs.begin(), verbs.end(),
                                          [&](const Verb& verb) { return verb.name == *first; });
  const bool global = std::all_of(words.begin(), words.end(), [](const std::string& word) {
    return word == "-h" || word == "--help" || word == "--version";
  });
  if (!named && !global) words.insert(words.begin(), "run");
  return words;
}

void add_color(CLI::App& app, std::string& color) {
  app.add_option("--color", color, "Of what goes to standard output; auto: on a terminal only")
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

ErrorForm form_of_errors(const Verb& verb) {
  if (verb.wants_json && verb.wants_json()) return ErrorForm::json;
  if (verb.wants_annotations && verb.wants_annotations()) return ErrorForm::annotations;
  return ErrorForm::text;
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
    return report(error, form_of_errors(verb), console.out, console.err);
  } catch (const std::exception& error) {
    console.err << "error[E7000]: " << error.what() << "\n   = help: this is a bug of shardsim; "
                << "please report it with the scenario\n";
    return static_cast<int>(ExitCode::internal);
  }
}

}  // namespace

int run_command(int argc, const char* const* argv, std::ostream& out, std::ostream& err,
                bool terminal, const RunHooks& hooks) {
  CLI::App app("Simulates and verifies the parallelism strategies that train large models.",
               "shardsim");
  const std::vector<Verb> verbs = all_verbs();
  std::string color = "auto";
  build(app, verbs, color);
  const std::vector<std::string> words = with_verb(argc, argv, verbs);
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
                        .hooks = hooks};
  const auto asked = std::find_if(verbs.begin(), verbs.end(),
                                  [&](const Verb& verb) { return app.got_subcommand(verb.name); });
  return run_verb(*asked, console);
}

}  // namespace shardsim
