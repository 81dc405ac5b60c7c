#pragma once

#include <string>

#include "sim/command/command_tree.hpp"

// Scripts that make a shell complete verbs, options, their choices, files, paths of fields, and
// names of presets (asked of the command when needed).
namespace shardsim {

[[nodiscard]] std::string bash_completion(const CommandTree& tree);
[[nodiscard]] std::string zsh_completion(const CommandTree& tree);
[[nodiscard]] std::string fish_completion(const CommandTree& tree);

/// `words` with blanks between them.
[[nodiscard]] std::string joined_words(const std::vector<std::string>& words);
/// Names of all verbs.
[[nodiscard]] std::vector<std::string> verb_names(const CommandTree& tree);

}  // namespace shardsim
