#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/command/completion.hpp"

namespace shardsim {

namespace {

constexpr const char* kZshBegin = R"zsh(#compdef shardsim
# zsh completion of shardsim; made by: shardsim completion zsh
# Write it to a file _shardsim in a folder of $fpath.
_shardsim_presets() {
  local -a names
  names=(${(f)"$(${service:-shardsim} presets 2>/dev/null | while read -r kind name; do
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

std::string zsh_action(const CommandOption& option) {
  switch (option.kind) {
    case ValueKind::choice:
      return fmt::format("({})", joined_words(option.choices));
    case ValueKind::field:
      return "_shardsim_fields";
    case ValueKind::model:
      return "{_shardsim_presets model}";
    case ValueKind::system:
      return "{_shardsim_presets system}";
    case ValueKind::preset:
      return "{_shardsim_presets any}";
    case ValueKind::folder:
      return "_files -/";
    case ValueKind::file:
      return "_files";
    case ValueKind::number:
    case ValueKind::none:
      break;
  }
  return "";
}

std::string zsh_specification(const CommandOption& option) {
  std::string out;
  for (const std::string& name : option.names) {
    // "=": the value follows it or a blank; "*": the option may be repeated.
    const bool is_long = name.starts_with("--");
    const std::string value = option.value_name.empty() ? "" : is_long ? "=" : "+";
    out += fmt::format("      '*{}{}[{}]", name, value, zsh_text(option.help));
    if (!option.value_name.empty()) {
      out += fmt::format(":{}:{}", zsh_text(option.value_name), zsh_action(option));
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
    words = fmt::format("      '*:{}:{}'\n", zsh_text(word.names.front()), zsh_action(word));
  }
  if (words.empty()) {
    out.erase(out.size() - 3);  // " \" before the end of the line.
    words = "\n";
  }
  return out + words + "      ;;\n";
}

}  // namespace

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

}  // namespace shardsim
