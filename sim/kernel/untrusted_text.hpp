#pragma once

#include <cstddef>
#include <string_view>

// Finds parts of users' names and files that a terminal, or the log of a CI service, would not take
// for plain text. Both functions that make text harmless use it: printable()
// (scenarios/source_text.hpp) and escape_untrusted() (reports/terminal_text.hpp).
namespace shardsim {

/// Decodes the character at `offset`; returns its length in bytes, 0 if it is not valid UTF-8.
/// REQUIRES: offset < text.size().
[[nodiscard]] int decode_utf8(std::string_view text, std::size_t offset, char32_t& character);

/// Control characters, characters that reorder or hide text, and characters without an image.
[[nodiscard]] bool is_invisible(char32_t character);

/// Whether GitHub Actions could read a command from `at` on: "::" with nothing but blanks before
/// it, or "##[" anywhere. REQUIRES: at < text.size().
[[nodiscard]] bool starts_workflow_command(std::string_view text, std::size_t at);

}  // namespace shardsim
