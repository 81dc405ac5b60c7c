#pragma once

// Texts of a scenario (the file, its presets, the --set flags), places in them, and the display of
// a place. Names and texts are untrusted: whatever is shown is escaped.

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

namespace shardsim {

/// One text. `flag` marks a command-line flag, whose errors name the flag instead of a line;
/// `preset` marks text that the user did not write.
struct SourceText {
  std::string name;
  std::string text;
  bool flag = false;
  bool preset = false;
};

/// A deque: spans point into it, so an element must never move.
using SourceTexts = std::deque<SourceText>;

/// `length` bytes from byte `offset` of `source`.
struct Span {
  const SourceText* source = nullptr;
  std::size_t offset = 0;
  std::size_t length = 0;
};

/// Line and column count from 1; a column is a character (a code point), not a byte.
struct Position {
  int line = 1;
  int column = 1;
};

Position position_of(const Span& span);

/// The line a span starts in, for display under an error. It has at most about 100 columns around
/// the span, with `caret_column` (from 0) and `caret_length` in columns of `text`.
struct Excerpt {
  std::string text;
  int caret_column = 0;
  int caret_length = 1;
};

Excerpt excerpt_of(const Span& span);

/// For printable(): nothing is cut.
inline constexpr std::size_t kWholeText = static_cast<std::size_t>(-1);

/// Makes `text` safe for a terminal and the log of a CI service. Control, bidirectional and
/// invisible characters, bytes that are not UTF-8 and the start of GitHub commands become \xNN or
/// \uNNNN. A text longer than `max_columns` is cut and ends in "...".
std::string printable(std::string_view text, std::size_t max_columns = 80);

}  // namespace shardsim
