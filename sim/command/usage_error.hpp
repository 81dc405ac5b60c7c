#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/kernel/error.hpp"

#include "sim/command/verbs.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own name.
class ParseError;
}  // namespace CLI

// Words on the command line that do not fit: what is wrong, and what was probably meant.
namespace shardsim {

/// `words` as the user gave them. Codes E0904 (options and words) and E0905 (nothing to do).
[[nodiscard]] UsageError usage_error(const CLI::App& app, const CLI::ParseError& error,
                                     const std::vector<std::string>& words);

/// E0916 if the first word is neither a verb nor a file, and looks like a verb. `shardsim WORD`
/// would look for a scenario of that name. Nothing if it may be a file.
[[nodiscard]] std::optional<UsageError> unknown_verb(const std::vector<std::string>& words,
                                                     const std::vector<Verb>& verbs);

/// The form that the words ask for, before they are parsed: --json and --output-format anywhere.
[[nodiscard]] ErrorForm form_in(const std::vector<std::string>& words);

}  // namespace shardsim
