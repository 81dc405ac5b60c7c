#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/command/completion.hpp"

namespace shardsim {

namespace {

constexpr const char* kFishBegin =
    R"fish(# fish completion of shardsim; made by: shardsim completion fish
# Write it to ~/.config/fish/completions/shardsim.fish
function __shardsim_presets
    shardsim presets 2>/dev/null | string replace -r -f "^$argv[1] +" ""
end

)fish";

std::string fish_text(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string fish_values(const CommandOption& option) {
  switch (option.kind) {
    case ValueKind::choice:
      return " -x -a " + fish_text(joined_words(option.choices));
    case ValueKind::field:
      return " -x -a '(__shardsim_fields)'";
    case ValueKind::model:
      return " -x -a '(__shardsim_presets model)'";
    case ValueKind::system:
      return " -x -a '(__shardsim_presets system)'";
    case ValueKind::preset:
      return " -x -a '(__shardsim_presets \\w+)'";
    case ValueKind::folder:
      return " -x -a '(__fish_complete_directories)'";
    case ValueKind::file:
      return " -r -F";
    case ValueKind::number:
      return " -x";
    case ValueKind::none:
      break;
  }
  return "";
}

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
  return out + fish_values(option) + " -d " + fish_text(option.help) + "\n";
}

}  // namespace

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
      out += "complete -c shardsim -n " + fish_text(condition) + fish_values(word) + " -d " +
             fish_text(word.help) + "\n";
    }
  }
  return out;
}

}  // namespace shardsim
