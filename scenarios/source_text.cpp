#include "scenarios/source_text.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "sim/kernel/text.hpp"

namespace shardsim {
namespace {

// Columns shown before and in total when a line is too long for a terminal.
constexpr std::size_t kColumnsShown = 100;
constexpr std::size_t kColumnsKept = 75;    // up to here the start of the line is shown
constexpr std::size_t kColumnsBefore = 40;  // else this much before the place

// One character as it may be shown, and how many bytes of the text it took.
struct Shown {
  std::string text;
  std::size_t bytes = 1;
  std::size_t columns = 1;
};

Shown show_character(std::string_view text, std::size_t offset) {
  char32_t character = 0;
  const int length = decode_utf8(text, offset, character);
  std::array<char, 16> buffer{};
  if (length == 0) {
    std::snprintf(buffer.data(), buffer.size(), "\\x%02x",
                  static_cast<unsigned char>(text[offset]));
    return {buffer.data(), 1, 4};
  }
  const auto bytes = static_cast<std::size_t>(length);
  if (character == '\t') return {" ", bytes, 1};
  if (is_invisible(character) || starts_workflow_command(text, offset)) {
    const char* format = character < 0x100 ? "\\x%02x" : "\\u%04x";
    const int columns =
        std::snprintf(buffer.data(), buffer.size(), format, static_cast<unsigned>(character));
    return {buffer.data(), bytes, static_cast<std::size_t>(columns)};
  }
  return {std::string(text.substr(offset, bytes)), bytes, 1};
}

std::size_t line_start(const std::string& text, std::size_t offset) {
  const std::size_t newline = offset == 0 ? std::string::npos : text.rfind('\n', offset - 1);
  return newline == std::string::npos ? 0 : newline + 1;
}

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80U; }

// `columns` characters before `offset`, or `start`.
std::size_t step_back(const std::string& text, std::size_t offset, std::size_t start,
                      std::size_t columns) {
  for (; offset > start && columns > 0; --columns) {
    do {
      --offset;
    } while (offset > start && is_continuation(text[offset]));
  }
  return offset;
}

}  // namespace

Position position_of(const Span& span) {
  const std::string& text = span.source->text;
  const std::size_t offset = std::min(span.offset, text.size());
  const std::size_t start = line_start(text, offset);
  Position position;
  position.line += static_cast<int>(
      std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(start), '\n'));
  for (std::size_t i = start; i < offset; ++i) position.column += is_continuation(text[i]) ? 0 : 1;
  return position;
}

Excerpt excerpt_of(const Span& span) {
  const std::string& text = span.source->text;
  const std::size_t offset = std::min(span.offset, text.size());
  const std::size_t start = line_start(text, offset);
  const std::size_t end = std::min(text.find('\n', offset), text.size());

  // Never more than a few steps: a line may be megabytes long.
  std::size_t begin = step_back(text, offset, start, kColumnsKept);
  if (begin > start) begin = step_back(text, offset, start, kColumnsBefore);
  Excerpt excerpt;
  std::size_t columns = 0;
  if (begin > start) {
    excerpt.text = "...";
    columns = 3;
  }
  std::size_t caret_end = 0;
  std::size_t at = begin;
  for (; at < end && columns < kColumnsShown; /* in the body */) {
    if (text[at] == '\r' && at + 1 == end) break;
    const Shown shown = show_character(std::string_view(text).substr(0, end), at);
    if (at < offset) excerpt.caret_column = static_cast<int>(columns + shown.columns);
    excerpt.text += shown.text;
    columns += shown.columns;
    at += shown.bytes;
    if (at <= offset + span.length) caret_end = columns;
  }
  if (begin == offset) excerpt.caret_column = static_cast<int>(begin > start ? 3 : 0);
  if (at < end && text[at] != '\r') excerpt.text += "...";
  excerpt.caret_length = std::max(1, static_cast<int>(caret_end) - excerpt.caret_column);
  return excerpt;
}

std::string printable(std::string_view text, std::size_t max_columns) {
  std::string result;
  std::size_t columns = 0;
  for (std::size_t at = 0; at < text.size(); /* in the body */) {
    const Shown shown = show_character(text, at);
    if (columns + shown.columns > max_columns) return result + "...";
    result += shown.text;
    columns += shown.columns;
    at += shown.bytes;
  }
  return result;
}

}  // namespace shardsim
