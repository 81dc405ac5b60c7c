#include "scenarios/wrapped_text.hpp"

#include <algorithm>

namespace shardsim {

namespace {

// Bytes 10xxxxxx continue a code point.
bool begins_code_point(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }

}  // namespace

std::size_t num_columns(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_code_point));
}

std::string columns_of(std::string_view text, std::size_t begin, std::size_t count) {
  std::string out;
  std::size_t column = 0;  // One past that of the current code point.
  for (const char byte : text) {
    if (begins_code_point(byte)) ++column;
    if (column > begin && column <= begin + count) out += byte;
  }
  return out;
}

std::string wrapped(std::string_view first, std::string_view text, std::size_t width,
                    std::size_t indent) {
  std::string out(first);
  if (width == 0) return out.append(text) + "\n";
  std::size_t column = num_columns(first);
  bool at_start = true;  // Nothing of the text is on this line yet.
  while (!text.empty()) {
    const std::size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    const std::size_t length = num_columns(word);
    if (!at_start && column + 1 + length > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
      at_start = true;
    }
    if (!at_start) out += ' ';
    column += length + (at_start ? 0 : 1);
    out += word;
    at_start = false;
    text = space == std::string_view::npos ? std::string_view() : text.substr(space + 1);
  }
  return out + "\n";
}

}  // namespace shardsim
