#include <algorithm>
#include <array>
#include <ostream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/kernel/text.hpp"
#include "sim/kernel/version.hpp"

#include "scenarios/field.hpp"
#include "sim/command/command_tree.hpp"
#include "sim/command/verbs.hpp"

namespace shardsim {

namespace {

struct NamedKind {
  std::string_view verb;  // "": any.
  std::string_view name;
  ValueKind kind;
};

// The parser has only texts; the names of options give the kinds of their values.
constexpr std::array kKinds = {
    NamedKind{"", "--set", ValueKind::field},         NamedKind{"", "--model", ValueKind::model},
    NamedKind{"", "--gpu", ValueKind::system},        NamedKind{"", "--system", ValueKind::system},
    NamedKind{"presets", "name", ValueKind::preset},  NamedKind{"plan", "model", ValueKind::model},
    NamedKind{"calibrate", "--out", ValueKind::file}, NamedKind{"plan", "--out", ValueKind::file},
    NamedKind{"import", "--out", ValueKind::file},    NamedKind{"export", "--out", ValueKind::file},
    NamedKind{"merge", "folder", ValueKind::folder},  NamedKind{"", "--out", ValueKind::folder},
    NamedKind{"torch", "--ranks", ValueKind::number}, NamedKind{"", "--folder", ValueKind::folder},
    NamedKind{"init", "--from", ValueKind::preset},
};

// "TEXT:{scenario,result}" lists what IsMember takes.
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{');
  const std::size_t end = type.find('}', begin);
  std::vector<std::string> choices;
  if (begin == std::string::npos || end == std::string::npos) return choices;
  const std::string list = type.substr(begin + 1, end - begin - 1);
  for (const std::string_view choice : split_at(list, ',')) choices.emplace_back(choice);
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
  verb.summary = app.get_description();
  verb.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options()) {
    (option->nonpositional() ? verb.options : verb.words).push_back(option_of(verb.name, *option));
  }
  return verb;
}

// Our text, made safe for roff: a backslash is \e, '-' of an option is \-, and a line must not
// begin with a control character.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) {
      out += std::string("\\&") + c;
    } else {
      out += c;
    }
  }
  return out;
}

std::string option_entry(const CommandOption& option) {
  std::string names;
  for (const std::string& name : option.names) {
    names += (names.empty() ? "\\fB" : ", \\fB") + roff(name) + "\\fR";
  }
  if (!option.choices.empty()) {
    names += " \\fI" + roff(fmt::format("{}", fmt::join(option.choices, "|"))) + "\\fR";
  } else if (!option.value_name.empty()) {
    names += " \\fI" + roff(option.value_name) + "\\fR";
  }
  return ".TP\n" + names + "\n" + roff(option.help.empty() ? "\\&" : option.help) + "\n";
}

// "Examples:" and lines of commands, as --help shows them: printed as they are.
std::string examples_of(const std::string& footer) {
  std::string out;
  std::istringstream lines(footer);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line == "Examples:") continue;
    out += roff(line) + "\n";
  }
  return out.empty() ? "" : ".PP\n.nf\n" + out + ".fi\n";
}

std::string verb_section(const CommandVerb& verb) {
  std::string out = fmt::format(".SS \"shardsim {}\"\n{}.\n", roff(verb.name), roff(verb.summary));
  for (const CommandOption& word : verb.words) out += option_entry(word);
  for (const CommandOption& option : verb.options) {
    if (option.names.back() != "--help" && option.names.back() != "--color") {
      out += option_entry(option);
    }
  }
  return out + examples_of(verb.footer);
}

constexpr std::string_view kEnd = R"man(.SH EXIT STATUS
.TP
.B 0
All is well.
.TP
.B 1
A check or an expectation failed.
.TP
.B 2
The command line or a scenario is wrong;
.B shardsim fix
leaves what it cannot correct.
.TP
.B 3
The plan does not fit: memory, or a limit.
.TP
.B 4
A deadlock, or communication that does not match.
.TP
.B 5
A backend failed: MPI, NCCL, hardware.
.TP
.B 70
A bug of shardsim.
.TP
.B 130
Interrupted.
.SH ENVIRONMENT
.TP
.B NO_COLOR
If set and not empty, no colors; neither if
.B TERM
is dumb.
.TP
.B SHARDSIM_PRESETS
The folder of the built\-in presets, instead of the one found beside the executable.
.TP
.B SHARDSIM_PYTHON
The Python with which
.B shardsim torch
runs scripts, instead of python3.
.TP
.B SHARDSIM_PYTHON_PATH
The folder of its package, instead of the one found beside the executable.
.SH FILES
Results go to standard output, everything else to standard error. Scenarios are JSON with comments;
.B shardsim schema
prints their schema.
)man";

// shardsim(1), in the man macros: every verb with its options and examples.
std::string man_page(const CommandTree& tree) {
  std::string out = fmt::format(".TH SHARDSIM 1 \"\" \"shardsim {}\" \"User Commands\"\n",
                                roff(std::string(version())));
  out += ".SH NAME\nshardsim \\- simulates and verifies strategies of parallel training\n";
  out += ".SH SYNOPSIS\n.B shardsim\n.I FILE\n.RI [ OPTIONS ]\n.br\n.B shardsim\n.I VERB\n";
  out += ".RI [ OPTIONS ]\n";
  out += ".SH DESCRIPTION\n" + roff(tree.summary) +
         "\nA file alone is simulated: \\fBrun\\fR is the "
         "default verb.\n";
  out += ".SH OPTIONS\n";
  for (const CommandOption& option : tree.options) out += option_entry(option);
  out += ".SH VERBS\n";
  for (const CommandVerb& verb : tree.verbs) out += verb_section(verb);
  return out + std::string(kEnd);
}

struct CompletionArguments {
  std::string shell;
  const CLI::App* root = nullptr;  // Complete only when all verbs are declared: when one runs.
};

}  // namespace

CommandTree command_tree(const CLI::App& app) {
  CommandTree tree;
  tree.summary = app.get_description();
  for (const CLI::Option* option : app.get_options()) {
    tree.options.push_back(option_of("", *option));
  }
  for (const CLI::App* verb : app.get_subcommands({})) tree.verbs.push_back(command_verb(*verb));
  return tree;
}

std::vector<std::string> settable_fields() {
  std::set<std::string> paths;
  for (const Field& field : field_table()) {
    const bool in_list = field.path.find("[]") != std::string::npos;
    if (!in_list && field.path != "$schema" && field.path != "schema_version") {
      paths.insert(field.path);
    }
  }
  for (const Section& section : section_table()) {
    if (!section.preset_folder.empty()) paths.insert(section.path + ".preset");
  }
  return {paths.begin(), paths.end()};
}

Verb completion_verb() {
  return with_arguments<CompletionArguments>(
      {.name = "completion",
       .summary = "Print a script with which a shell completes verbs, options, presets and fields",
       .group = VerbGroup::shell,
       .examples = {{"source <(shardsim completion bash)", "in this bash, at once"},
                    {"shardsim completion zsh > ~/.zfunc/_shardsim", "a folder of $fpath"},
                    {"shardsim completion fish > ~/.config/fish/completions/shardsim.fish",
                     "for every fish"}}},
      [](CLI::App& app, CompletionArguments& arguments) {
        arguments.root = app.get_parent();
        app.add_option("shell", arguments.shell, "The shell")
            ->required()
            ->check(CLI::IsMember({"bash", "zsh", "fish"}));
      },
      [](const CompletionArguments& arguments, const Console& console) {
        const CommandTree tree = command_tree(*arguments.root);
        console.out << (arguments.shell == "bash"  ? bash_completion(tree)
                        : arguments.shell == "zsh" ? zsh_completion(tree)
                                                   : fish_completion(tree));
        return 0;
      });
}

Verb man_verb() {
  return with_arguments<CompletionArguments>(
      {.name = "man",
       .summary = "Print the manual page",
       .group = VerbGroup::shell,
       .examples = {{"shardsim man | man -l -", "reads it"}}},
      [](CLI::App& app, CompletionArguments& arguments) { arguments.root = app.get_parent(); },
      [](const CompletionArguments& arguments, const Console& console) {
        console.out << man_page(command_tree(*arguments.root));
        return 0;
      });
}

}  // namespace shardsim
