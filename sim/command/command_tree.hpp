#pragma once

#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own name.
class App;
}  // namespace CLI

// The command line as plain structs, read from the parser itself. Completion and manual are made
// from them, so they list exactly the options that exist.
namespace shardsim {

/// The kind of a value, as far as a shell can complete it.
enum class ValueKind { none, choice, field, model, system, preset, folder, file, number };

struct CommandOption {
  std::vector<std::string> names;  ///< "-o", "--output"; for a word without an option: "file".
  std::string help;
  std::string value_name;  ///< "TEXT"; empty for flags.
  ValueKind kind = ValueKind::none;
  std::vector<std::string> choices;  ///< For kind choice only.
};

struct CommandVerb {
  std::string name;
  std::string summary;
  std::string footer;  ///< Its examples, as --help shows them.
  std::vector<CommandOption> options;
  std::vector<CommandOption> words;
};

struct CommandTree {
  std::string summary;
  std::vector<CommandOption> options;  ///< Before a verb.
  std::vector<CommandVerb> verbs;
};

[[nodiscard]] CommandTree command_tree(const CLI::App& app);

/// Paths of all fields that --set can take, in the order of the reference.
[[nodiscard]] std::vector<std::string> settable_fields();

/// Scripts that make a shell complete verbs, options, their choices, files, paths of fields, and
/// names of presets (asked of the command when needed).
[[nodiscard]] std::string bash_completion(const CommandTree& tree);
[[nodiscard]] std::string zsh_completion(const CommandTree& tree);
[[nodiscard]] std::string fish_completion(const CommandTree& tree);

}  // namespace shardsim
