#include "sim/command/usage.hpp"

#include <algorithm>

#include <CLI/CLI.hpp>

#include "scenarios/scenario_error.hpp"
#include "scenarios/source_text.hpp"
#include "scenarios/suggest.hpp"

namespace shardsim {

namespace {

const CLI::App& verb_of(const CLI::App& app) {
  const std::vector<CLI::App*> verbs = app.get_subcommands();
  return verbs.empty() ? app : *verbs.front();
}

std::string help_of(const CLI::App& app) {
  const CLI::App& verb = verb_of(app);
  return &verb == &app ? "\"shardsim --help\" shows what there is"
                       : "\"shardsim " + verb.get_name() + " --help\" shows what there is";
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

}  // namespace shardsim
