#include <memory>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/kernel/version.hpp"

#include "sim/command/command_tree.hpp"
#include "sim/command/verbs.hpp"

namespace shardsim {

namespace {

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

}  // namespace

Verb completion_verb() {
  struct Arguments {
    std::string shell;
    const CLI::App* root =
        nullptr;  // Complete only when all verbs are declared: used when the verb runs.
  };
  const auto arguments = std::make_shared<Arguments>();
  return {
      .name = "completion",
      .summary = "Print a script with which a shell completes verbs, options, presets and fields",
      .add_options =
          [arguments](CLI::App& app) {
            arguments->root = app.get_parent();
            app.add_option("shell", arguments->shell, "Which")
                ->required()
                ->check(CLI::IsMember({"bash", "zsh", "fish"}));
          },
      .run =
          [arguments](const Console& console) {
            const CommandTree tree = command_tree(*arguments->root);
            console.out << (arguments->shell == "bash"  ? bash_completion(tree)
                            : arguments->shell == "zsh" ? zsh_completion(tree)
                                                        : fish_completion(tree));
            return 0;
          },
      .wants_json = nullptr,
      .group = VerbGroup::shell,
      .examples = {{"source <(shardsim completion bash)", "in this bash, at once"},
                   {"shardsim completion zsh > ~/.zfunc/_shardsim", "a folder of $fpath"},
                   {"shardsim completion fish > ~/.config/fish/completions/shardsim.fish",
                    "for every fish"}}};
}

Verb man_verb() {
  const auto root = std::make_shared<const CLI::App*>(nullptr);
  return {.name = "man",
          .summary = "Print the manual page",
          .add_options = [root](CLI::App& app) { *root = app.get_parent(); },
          .run =
              [root](const Console& console) {
                console.out << man_page(command_tree(**root));
                return 0;
              },
          .wants_json = nullptr,
          .group = VerbGroup::shell,
          .examples = {{"shardsim man | man -l -", "reads it"}}};
}

}  // namespace shardsim
