#pragma once

#include <string_view>
#include <vector>

// Explanations of the codes of errors, for `shardsim explain`. The texts are in errors/*.txt: three
// lines for each code, so that a new error is one entry there.
namespace shardsim {

struct ErrorEntry {
  std::string_view code;     ///< "E0107"
  std::string_view meaning;  ///< One sentence: what is wrong.
  std::string_view fix;      ///< The way out.
  /// A command for a shell, beside the scenario.json that `shardsim init` writes, that ends with
  /// this error; for errors that no command shows, a case in words.
  std::string_view example;
};

/// All, ascending.
[[nodiscard]] const std::vector<ErrorEntry>& error_table();

/// Null if there is none.
[[nodiscard]] const ErrorEntry* find_error(std::string_view code);

/// Whether the example is a command, and not words.
[[nodiscard]] bool has_command(const ErrorEntry& entry);

/// The texts of all files, one after the other.
[[nodiscard]] std::string_view error_texts();

}  // namespace shardsim
