#include "sim/command/usage_error.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <CLI/CLI.hpp>

#include "sim/kernel/text.hpp"

#include "scenarios/field.hpp"
#include "scenarios/source_text.hpp"
#include "scenarios/suggest.hpp"
#include "sim/search/search_space.hpp"

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

// Those of the verb, and of the command itself: both stand on one line.
std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* each : {&verb_of(app), &app}) {
    for (const CLI::Option* option : each->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
      for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    }
  }
  return names;
}

std::vector<std::string> names_of(const std::vector<Verb>& verbs) {
  std::vector<std::string> names;
  for (const Verb& verb : verbs) names.push_back(verb.name);
  return names;
}

// The value that stands with an option: "8" of "--tp 8" and of "--tp=8".
std::string value_of(const std::string& option, const std::vector<std::string>& words) {
  if (const std::size_t equals = option.find('='); equals != std::string::npos) {
    return option.substr(equals + 1);
  }
  const auto found = std::ranges::find(words, option);
  if (found == words.end() || found + 1 == words.end()) return "";
  return (found + 1)->starts_with("-") ? "" : *(found + 1);
}

// "--tp 8" of people who know other programs: a field, for the option of this verb that sets one.
std::string field_hint(const CLI::App& verb, const std::string& option,
                       const std::vector<std::string>& words) {
  const std::string path = field_of_word(option.substr(0, option.find('=')));
  const Field* const field = find_field(path);
  if (field == nullptr) return "";
  std::string value = value_of(option, words);
  if (value.empty()) value = field->type == FieldType::boolean ? "true" : "VALUE";
  const std::string key = path.substr(path.rfind('.') + 1);
  const bool is_axis = std::ranges::find(axis_names(), key) != axis_names().end();
  if (is_axis && verb.get_option_no_throw("--fix") != nullptr) {
    return "write \"--fix " + key + "=" + printable(value) + "\"";
  }
  if (verb.get_option_no_throw("--set") == nullptr) return "";
  return "write \"--set " + path + "=" + printable(value) + "\"";
}

UsageError unknown_option(const CLI::App& app, const std::string& word,
                          const std::vector<std::string>& words) {
  const CLI::App& verb = verb_of(app);
  const std::string name = word.substr(0, word.find('='));
  std::string hint = field_hint(verb, word, words);
  constexpr std::size_t kLetter = 2;  // "-q": any other letter would be as near.
  if (hint.empty() && name.size() > kLetter) {
    const std::string near = nearest(name, options_of(app));
    if (!near.empty()) hint = "write \"" + near + "\"";
  }
  return {"E0904",
          "\"" + name + "\" is not an option of \"shardsim" +
              (&verb == &app ? "" : " " + verb.get_name()) + "\"",
          hint.empty() ? help_of(app) : hint + "; " + help_of(app)};
}

// An extra word: a mistyped option, or a second file.
UsageError unexpected_word(const CLI::App& app, const std::string& word,
                           const std::vector<std::string>& words) {
  if (word.substr(0, 1) == "-") return unknown_option(app, word, words);
  return {"E0904", "\"" + word + "\" is one word too many",
          verb_of(app).get_name() == "run"
              ? "run one scenario at a time; \"shardsim check\" takes several"
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

// "--output-format: junti not in {text,json,github,junit}": CLI11's words for a value that is none
// of the choices. The nearest choice, or nothing.
std::string choice_hint(const std::string& text) {
  constexpr std::string_view kNotIn = " not in {";
  const std::size_t at = text.find(kNotIn);
  const std::size_t end = text.rfind('}');
  const std::size_t colon = text.find(": ");
  if (at == std::string::npos || end == std::string::npos || colon >= at) return "";
  const std::string listed = text.substr(at + kNotIn.size(), end - at - kNotIn.size());
  std::vector<std::string> choices;
  for (const std::string_view choice : split_at(listed, ',')) choices.emplace_back(choice);
  const std::string near = nearest(text.substr(colon + 2, at - colon - 2), choices);
  return near.empty() ? "" : "write \"" + near + "\"; ";
}

// Verbs of other programs.
struct OtherVerb {
  std::string_view theirs;
  std::string_view ours;
};
constexpr std::array kOtherVerbs = {OtherVerb{"simulate", "run"},  OtherVerb{"search", "plan"},
                                    OtherVerb{"optimize", "plan"}, OtherVerb{"compare", "diff"},
                                    OtherVerb{"list", "presets"},  OtherVerb{"models", "presets"},
                                    OtherVerb{"gpus", "presets"},  OtherVerb{"systems", "presets"},
                                    OtherVerb{"lint", "check"},    OtherVerb{"convert", "import"}};

std::string meant_verb(const std::string& word, const std::vector<Verb>& verbs) {
  const auto* const other = std::ranges::find(kOtherVerbs, word, &OtherVerb::theirs);
  return other == kOtherVerbs.end() ? nearest(word, names_of(verbs)) : std::string(other->ours);
}

UsageError missing_word(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& verb = verb_of(app);
  const std::string missing = error.what();  // "shell is required"
  const bool without_verb = &verb == &app || verb.get_name() == "run";
  if (!without_verb && missing.rfind("file", 0) != 0) {
    return {"E0905",
            "\"shardsim " + verb.get_name() + "\" needs \"" + missing.substr(0, missing.find(' ')) +
                "\"",
            help_of(app)};
  }
  if (const CLI::Option* kind = verb.get_option_no_throw("kind")) return missing_kind(verb, *kind);
  return {"E0905", "no scenario is given",
          "name a file: \"shardsim " + (without_verb ? std::string() : verb.get_name() + " ") +
              "scenarios/quickstart.json\"; \"shardsim demo\" needs none; " + help_of(app)};
}

}  // namespace

UsageError usage_error(const CLI::App& app, const CLI::ParseError& error,
                       const std::vector<std::string>& words) {
  const std::vector<std::string> left = app.remaining(true);
  if (!left.empty() && error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    return unexpected_word(app, left.front(), words);
  }
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError)) {
    // CLI11 looks for missing words before it looks for extra ones.
    const auto option = std::find_if(left.begin(), left.end(), [](const std::string& word) {
      return word.size() > 1 && word.front() == '-';
    });
    return option == left.end() ? missing_word(app, error) : unexpected_word(app, *option, words);
  }
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ArgumentMismatch)) {
    const std::string text = error.what();
    return {"E0904", "\"" + text.substr(0, text.find(':')) + "\" needs a value", help_of(app)};
  }
  return {"E0904", error.what(), choice_hint(error.what()) + help_of(app)};
}

std::optional<UsageError> unknown_verb(const std::vector<std::string>& words,
                                       const std::vector<Verb>& verbs) {
  if (words.empty()) return std::nullopt;
  const std::string& word = words.front();
  const auto is_of_verb = [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || letter == '_' ||
           letter == '-' || (letter >= '0' && letter <= '9');
  };
  const bool is_plain =
      !word.empty() && word.front() != '-' && std::ranges::all_of(word, is_of_verb);
  if (!is_plain || std::ranges::find(verbs, word, &Verb::name) != verbs.end()) return std::nullopt;
  std::error_code error;
  if (std::filesystem::exists(word, error)) return std::nullopt;
  const std::string near = meant_verb(word, verbs);
  return UsageError("E0916", "\"" + word + "\" is neither a verb nor a file",
                    (near.empty() ? std::string() : "write \"shardsim " + near + "\"; ") +
                        "the verbs are " + one_of_list(names_of(verbs)));
}

ErrorForm form_in(const std::vector<std::string>& words) {
  constexpr std::string_view kFormat = "--output-format";
  ErrorForm form = ErrorForm::text;
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    std::string format;
    if (words[i] == "--json") format = "json";
    if (words[i] == kFormat && i + 1 < words.size()) format = words[i + 1];
    if (words[i].starts_with(std::string(kFormat) + "=")) {
      format = words[i].substr(kFormat.size() + 1);
    }
    if (format == "json") form = ErrorForm::json;
    if (format == "github") form = ErrorForm::annotations;
    if (format == "junit") form = ErrorForm::junit;
    if (format == "text") form = ErrorForm::text;
  }
  return form;
}

}  // namespace shardsim
