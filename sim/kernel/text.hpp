#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

// Takes texts apart: fields, numbers, and what a terminal would not take for plain text.
namespace shardsim {

/// The parts between all `separator`s; empty ones count, and there is at least one. They point into
/// the text, which must therefore outlive them.
[[nodiscard]] std::vector<std::string_view> split_at(std::string_view text, char separator);

/// A string that nobody keeps would be gone before its parts are read.
template <class Text>
requires std::same_as<std::remove_const_t<Text>, std::string> std::vector<std::string_view>
split_at(Text&& text, char separator)
= delete;

/// The number that the text is, as std::from_chars reads it: no blanks and no plus. None if
/// anything else is in it, or if the number does not fit.
template <class Number>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

// --- Untrusted text ----------------------------------------------------------------------------
// Parts of users' names and files that a terminal, or the log of a CI service, would not take for
// plain text. Both functions that make text harmless use it: printable()
// (scenarios/source_text.hpp) and escape_untrusted() (reports/terminal_text.hpp).

/// Decodes the character at `offset`; returns its length in bytes, 0 if it is not valid UTF-8.
/// REQUIRES: offset < text.size().
[[nodiscard]] int decode_utf8(std::string_view text, std::size_t offset, char32_t& character);

/// Control characters, characters that reorder or hide text, and characters without an image.
[[nodiscard]] bool is_invisible(char32_t character);

/// Whether GitHub Actions could read a command from `at` on: "::" with nothing but blanks before
/// it, or "##[" anywhere. REQUIRES: at < text.size().
[[nodiscard]] bool starts_workflow_command(std::string_view text, std::size_t at);

}  // namespace shardsim
