#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/command/completion.hpp"

namespace shardsim {

namespace {

// Words of the line as the user sees them: bash cuts "--backend=mpi" into three at the '='.
constexpr const char* kBashBegin =
    R"bash(# bash completion of shardsim; made by: shardsim completion bash
# Load it with: source <(shardsim completion bash)
_shardsim_presets() {
  "${COMP_WORDS[0]}" presets 2>/dev/null | while read -r kind name; do
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

std::string bash_words(const std::string& words) {
  return fmt::format("mapfile -t COMPREPLY < <(compgen -W \"{}\" -- \"$current\"); return ;;\n",
                     words);
}

// The completion of a value after an option.
std::string bash_value(const CommandOption& option) {
  switch (option.kind) {
    case ValueKind::choice:
      return bash_words(joined_words(option.choices));
    case ValueKind::field:
      return "_shardsim_fields \"$current\"; return ;;\n";
    case ValueKind::model:
      return bash_words("$(_shardsim_presets model)");
    case ValueKind::system:
      return bash_words("$(_shardsim_presets system)");
    case ValueKind::preset:
      return bash_words("$(_shardsim_presets any)");
    case ValueKind::folder:
      return "mapfile -t COMPREPLY < <(compgen -d -- \"$current\"); return ;;\n";
    case ValueKind::file:
    case ValueKind::number:
    case ValueKind::none:
      break;
  }
  return "return ;;\n";  // Files, as bash completes them itself.
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
    if (word.kind == ValueKind::choice) return joined_words(word.choices);
    if (word.kind == ValueKind::preset) return "$(_shardsim_presets any)";
    if (word.kind == ValueKind::model) return "$(_shardsim_presets model)";
    if (word.kind == ValueKind::system) return "$(_shardsim_presets system)";
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

}  // namespace

std::string joined_words(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

std::vector<std::string> verb_names(const CommandTree& tree) {
  std::vector<std::string> names;
  for (const CommandVerb& verb : tree.verbs) names.push_back(verb.name);
  return names;
}

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

}  // namespace shardsim
