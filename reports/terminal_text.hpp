#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

// Text from outside, made harmless: on a terminal, where lines also fit, and in markup.
namespace shardsim {

/// Printable text stays as it is. All else is written as \n, \t, \x1b or \u202e: starts of GitHub
/// Actions commands, control characters (C0, DEL, C1), bidirectional controls, zero-width
/// characters and bytes that are not UTF-8. Use it for every text from outside.
[[nodiscard]] std::string escape_untrusted(std::string_view text);

/// Columns that escaped text takes: wide East Asian characters and emoji count two, combining marks
/// none. REQUIRES: no escape sequences, valid UTF-8.
[[nodiscard]] std::size_t display_width(std::string_view text);

/// At most `columns` wide; "…" stands for what was cut. REQUIRES: columns >= 1.
[[nodiscard]] std::string truncate_to_width(std::string_view text, std::size_t columns);

/// Broken at spaces (inside a word only if it alone is too long), later lines indented by `indent`.
/// REQUIRES: columns > indent.
[[nodiscard]] std::vector<std::string> wrap_to_width(std::string_view text, std::size_t columns,
                                                     std::size_t indent);

/// A bar of `eighths` eighths of a column, padded with spaces to `columns`.
/// REQUIRES: 0 <= eighths <= 8 * columns.
[[nodiscard]] std::string draw_bar(std::size_t eighths, std::size_t columns);

/// Any text, made harmless inside HTML and SVG, between tags or in a quoted attribute. Markup is
/// escaped. Invisible characters (control characters, marks that reorder text) are written out as
/// on a terminal.
[[nodiscard]] std::string markup_text(std::string_view text);

}  // namespace shardsim
