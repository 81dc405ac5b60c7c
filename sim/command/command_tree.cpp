#include "sim/command/command_tree.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <CLI/CLI.hpp>

#include "scenarios/field.hpp"

namespace shardsim {

namespace {

struct NamedKind {
  std::string_view verb;  // "": any.
  std::string_view name;
  ValueKind kind;
};

// The parser has only texts; the names of options give the kinds of their values.
constexpr std::array kKinds = {
    NamedKind{"", "--set", ValueKind::field},
    NamedKind{"", "--model", ValueKind::model},
    NamedKind{"", "--gpu", ValueKind::system},
    NamedKind{"", "--system", ValueKind::system},
    NamedKind{"presets", "name", ValueKind::preset},
    NamedKind{"plan", "model", ValueKind::model},
    NamedKind{"calibrate", "--out", ValueKind::file},
    NamedKind{"plan", "--out", ValueKind::file},
    NamedKind{"import", "--out", ValueKind::file},
    NamedKind{"export", "--out", ValueKind::file},
    NamedKind{"merge", "folder", ValueKind::folder},
    NamedKind{"", "--out", ValueKind::folder},
    NamedKind{"", "--folder", ValueKind::folder},
    NamedKind{"init", "--from", ValueKind::preset},
};

// "TEXT:{scenario,result}" lists what IsMember takes.
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{');
  const std::size_t end = type.find('}', begin);
  std::vector<std::string> choices;
  if (begin == std::string::npos || end == std::string::npos) return choices;
  std::size_t at = begin + 1;
  while (at <= end) {
    const std::size_t comma = std::min(type.find(',', at), end);
    choices.push_back(type.substr(at, comma - at));
    at = comma + 1;
  }
  return choices;
}

ValueKind kind_of(const std::string& verb, const CommandOption& option) {
  if (option.value_name.empty()) return ValueKind::none;
  if (!option.choices.empty()) return ValueKind::choice;
  for (const NamedKind& row : kKinds) {
    const bool here = row.verb.empty() || row.verb == verb;
    const bool named =
        std::find(option.names.begin(), option.names.end(), row.name) != option.names.end();
    if (here && named) return row.kind;
  }
  const bool is_text = option.value_name.starts_with("TEXT");
  return is_text ? ValueKind::file : ValueKind::number;
}

CommandOption option_of(const std::string& verb, const CLI::Option& option) {
  CommandOption out;
  for (const std::string& name : option.get_snames()) out.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) out.names.push_back("--" + name);
  if (!option.nonpositional()) out.names.push_back(option.get_name(true));
  out.help = option.get_description();
  out.choices = choices_of(option);
  const std::string type = option.get_type_name();  // Empty for flags.
  out.value_name = type.substr(0, type.find(':'));
  out.kind = kind_of(verb, out);
  return out;
}

CommandVerb command_verb(const CLI::App& app) {
  CommandVerb verb;
  verb.name = app.get_name();
  verb.group = app.get_group();
  verb.summary = app.get_description();
  verb.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options()) {
    (option->nonpositional() ? verb.options : verb.words).push_back(option_of(verb.name, *option));
  }
  return verb;
}

}  // namespace

CommandTree command_tree(const CLI::App& app) {
  CommandTree tree;
  tree.name = app.get_name();
  tree.summary = app.get_description();
  tree.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options()) {
    tree.options.push_back(option_of("", *option));
  }
  for (const CLI::App* verb : app.get_subcommands({})) tree.verbs.push_back(command_verb(*verb));
  return tree;
}

std::vector<std::string> settable_fields() {
  std::vector<std::string> paths;
  for (const Field& field : field_table()) {
    const bool in_list = field.path.find("[]") != std::string::npos;
    if (!in_list && field.path != "$schema" && field.path != "schema_version") {
      paths.push_back(field.path);
    }
  }
  for (const Section& section : section_table()) {
    if (!section.preset_folder.empty()) paths.push_back(section.path + ".preset");
  }
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return paths;
}

}  // namespace shardsim
