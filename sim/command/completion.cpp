#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/command/command_tree.hpp"

namespace shardsim {

namespace {

// `words` with blanks between them.
std::string joined_words(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

// Names of all verbs.
std::vector<std::string> verb_names(const CommandTree& tree) {
  std::vector<std::string> names;
  for (const CommandVerb& verb : tree.verbs) names.push_back(verb.name);
  return names;
}

std::string fish_text(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

// How each shell completes a value.
struct ValueCompletion {
  std::string bash_words;   // Empty: bash_action completes it.
  std::string zsh;          // The action of a specification.
  std::string fish;         // The options of `complete`.
  std::string bash_action;  // Empty: files, as bash completes them itself.
};

// `kind` is a word of "shardsim presets --names"; `pattern`: the same for fish.
ValueCompletion presets_completion(const std::string& kind, const std::string& pattern) {
  return {"$(_shardsim_presets " + kind + ")", "{_shardsim_presets " + kind + "}",
          " -x -a '(__shardsim_presets " + pattern + ")'", ""};
}

ValueCompletion completion_of(const CommandOption& option) {
  switch (option.kind) {
    case ValueKind::choice: {
      const std::string words = joined_words(option.choices);
      return {words, "(" + words + ")", " -x -a " + fish_text(words), ""};
    }
    case ValueKind::field:
      return {"", "_shardsim_fields", " -x -a '(__shardsim_fields)'",
              "_shardsim_fields \"$current\"; "};
    case ValueKind::model:
      return presets_completion("model", "model");
    case ValueKind::system:
      return presets_completion("system", "system");
    case ValueKind::preset:
      return presets_completion("any", "\\w+");
    case ValueKind::folder:
      return {"", "_files -/", " -x -a '(__fish_complete_directories)'",
              "mapfile -t COMPREPLY < <(compgen -d -- \"$current\"); "};
    case ValueKind::file:
      return {"", "_files", " -r -F", ""};
    case ValueKind::number:
      return {"", "", " -x", ""};
    case ValueKind::none:
      break;
  }
  return {};
}

// Words of the line as the user sees them: bash cuts "--backend=mpi" into three at the '='.
constexpr const char* kBashBegin =
    R"bash(# bash completion of shardsim; made by: shardsim completion bash
# Load it with: source <(shardsim completion bash)
_shardsim_presets() {
  "${COMP_WORDS[0]}" presets --names 2>/dev/null | while read -r kind name; do
    if [[ $1 == any || $1 == "$kind" ]]; then printf '%s\n' "$name"; fi
  done
}

_shardsim() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} verb=run word
  COMPREPLY=()
  if [[ $current == "=" ]]; then
    current=
  elif [[ $previous == "=" && $COMP_CWORD -ge 2 ]]; then
    previous=${COMP_WORDS[COMP_CWORD-2]}
  fi
  local typed=no
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case $word in
)bash";

constexpr const char* kBashEnd = R"bash(  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
  elif [[ $typed == no && $COMP_CWORD -eq 1 ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$verbs" -- "$current"; compgen -f -- "$current")
  elif [[ -n $words ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  fi
}

complete -o default -F _shardsim shardsim
)bash";

// The completion of a value after an option.
std::string bash_value(const CommandOption& option) {
  const ValueCompletion completion = completion_of(option);
  const std::string action =
      completion.bash_words.empty()
          ? completion.bash_action
          : fmt::format("mapfile -t COMPREPLY < <(compgen -W \"{}\" -- \"$current\"); ",
                        completion.bash_words);
  return action + "return ;;\n";
}

std::string bash_cases(const std::string& verb, const std::vector<CommandOption>& options) {
  std::string out;
  for (const CommandOption& option : options) {
    if (option.value_name.empty()) continue;
    std::string names;
    for (const std::string& name : option.names) {
      names += (names.empty() ? "" : " | ") + fmt::format("{}:{}", verb, name);
    }
    out += fmt::format("    {}) {}", names, bash_value(option));
  }
  return out;
}

std::vector<std::string> names_of(const std::vector<CommandOption>& options) {
  std::vector<std::string> names;
  for (const CommandOption& option : options) {
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

// Words that a verb takes without an option, if a shell can list them.
std::string bash_own_words(const CommandVerb& verb) {
  for (const CommandOption& word : verb.words) {
    const std::string words = completion_of(word).bash_words;
    if (!words.empty()) return words;
  }
  return "";
}

std::string bash_fields() {
  std::string fields;
  for (const std::string& path : settable_fields()) fields += " " + path + "=";
  // A value follows at once, so no blank is put behind the '='.
  return fmt::format(
      "_shardsim_fields() {{\n  mapfile -t COMPREPLY < <(compgen -W \"{}\" -- \"$1\")\n"
      "  compopt -o nospace 2>/dev/null\n}}\n\n",
      fields.substr(1));
}

constexpr const char* kZshBegin = R"zsh(#compdef shardsim
# zsh completion of shardsim; made by: shardsim completion zsh
# Write it to a file _shardsim in a folder of $fpath.
_shardsim_presets() {
  local -a names
  names=(${(f)"$(${service:-shardsim} presets --names 2>/dev/null | while read -r kind name; do
    if [[ $1 == any || $1 == $kind ]]; then print -r -- $name; fi
  done)"})
  compadd -a names
}

)zsh";

// Inside "..." of an option's specification.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return out;
}

std::string zsh_specification(const CommandOption& option) {
  std::string out;
  for (const std::string& name : option.names) {
    // "=": the value follows it or a blank; "*": the option may be repeated.
    const bool is_long = name.starts_with("--");
    const std::string value = option.value_name.empty() ? "" : is_long ? "=" : "+";
    out += fmt::format("      '*{}{}[{}]", name, value, zsh_text(option.help));
    if (!option.value_name.empty()) {
      out += fmt::format(":{}:{}", zsh_text(option.value_name), completion_of(option).zsh);
    }
    out += "' \\\n";
  }
  return out;
}

std::string zsh_verb(const CommandVerb& verb) {
  std::string out = fmt::format("    {})\n      _arguments \\\n", verb.name);
  for (const CommandOption& option : verb.options) out += zsh_specification(option);
  std::string words;
  for (const CommandOption& word : verb.words) {
    words = fmt::format("      '*:{}:{}'\n", zsh_text(word.names.front()), completion_of(word).zsh);
  }
  if (words.empty()) {
    out.erase(out.size() - 3);  // " \" before the end of the line.
    words = "\n";
  }
  return out + words + "      ;;\n";
}

constexpr const char* kFishBegin =
    R"fish(# fish completion of shardsim; made by: shardsim completion fish
# Write it to ~/.config/fish/completions/shardsim.fish
function __shardsim_presets
    shardsim presets --names 2>/dev/null | string replace -r -f "^$argv[1] +" ""
end

)fish";

// The condition of a verb's options; those of the default verb also apply without a verb.
std::string fish_condition(const CommandTree& tree, const CommandVerb& verb) {
  const std::string here = "__fish_seen_subcommand_from " + verb.name;
  if (verb.name != "run") return here;
  return here + "; or not __fish_seen_subcommand_from " + joined_words(verb_names(tree));
}

std::string fish_option(const std::string& condition, const CommandOption& option) {
  std::string out = "complete -c shardsim -n " + fish_text(condition);
  for (const std::string& name : option.names) {
    out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  return out + completion_of(option).fish + " -d " + fish_text(option.help) + "\n";
}

}  // namespace

std::string bash_completion(const CommandTree& tree) {
  const std::vector<std::string> verbs = verb_names(tree);
  std::string out = bash_fields() + kBashBegin;
  out += fmt::format("      {}) verb=$word typed=yes; break ;;\n", fmt::join(verbs, " | "));
  out += "    esac\n  done\n  case $verb:$previous in\n";
  for (const CommandVerb& verb : tree.verbs) out += bash_cases(verb.name, verb.options);
  out += "  esac\n  local options words=\n  case $verb in\n";
  for (const CommandVerb& verb : tree.verbs) {
    const std::string words = bash_own_words(verb);
    out += fmt::format("    {}) options=\"{}\"", verb.name, joined_words(names_of(verb.options)));
    if (!words.empty()) out += fmt::format(" words=\"{}\"", words);
    out += " ;;\n";
  }
  out += fmt::format("  esac\n  local verbs=\"{} help\"\n", joined_words(verbs));
  return out + kBashEnd;
}

std::string zsh_completion(const CommandTree& tree) {
  std::string out = kZshBegin;
  out += "_shardsim_fields() {\n  local -a fields\n  fields=(\n";
  for (const std::string& path : settable_fields()) out += "    " + path + "\n";
  out += "  )\n  compadd -S = -a fields\n}\n\n";
  out += "_shardsim() {\n  local -a verbs\n  verbs=(\n";
  for (const CommandVerb& verb : tree.verbs) {
    out += fmt::format("    '{}:{}'\n", verb.name, zsh_text(verb.summary));
  }
  out +=
      "  )\n  if (( CURRENT == 2 )); then\n    _describe verb verbs\n    _files\n    return\n  "
      "fi\n";
  out += "  local verb=$words[2]\n";
  out += "  if (( ! ${verbs[(I)$verb:*]} )); then\n    verb=run\n  else\n    shift words\n";
  out += "    (( CURRENT-- ))\n  fi\n  case $verb in\n";
  for (const CommandVerb& verb : tree.verbs) out += zsh_verb(verb);
  return out + "  esac\n}\n\n_shardsim \"$@\"\n";
}

std::string fish_completion(const CommandTree& tree) {
  std::string out = kFishBegin;
  out += "function __shardsim_fields\n    printf '%s=\\n' \\\n";
  for (const std::string& path : settable_fields()) out += "        " + path + " \\\n";
  out.erase(out.size() - 3);
  out += "\nend\n\n";
  for (const CommandVerb& verb : tree.verbs) {
    out += fmt::format("complete -c shardsim -n __fish_use_subcommand -a {} -d {}\n", verb.name,
                       fish_text(verb.summary));
  }
  for (const CommandVerb& verb : tree.verbs) {
    const std::string condition = fish_condition(tree, verb);
    for (const CommandOption& option : verb.options) out += fish_option(condition, option);
    for (const CommandOption& word : verb.words) {
      if (word.kind == ValueKind::file) continue;  // Fish completes files by itself.
      out += "complete -c shardsim -n " + fish_text(condition) + completion_of(word).fish + " -d " +
             fish_text(word.help) + "\n";
    }
  }
  return out;
}

}  // namespace shardsim
