#include "reports/terminal_text.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include <fmt/format.h>

#include "sim/kernel/text.hpp"

namespace shardsim {

namespace {

struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 1;
  bool valid = false;
};

struct Range {
  char32_t first;
  char32_t last;
};

template <std::size_t N>
bool contains(const std::array<Range, N>& ranges, char32_t value) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [value](Range r) { return r.first <= value && value <= r.last; });
}

// The ranges of Unicode's East Asian Width "W" and "F" that names are made of.
constexpr std::array<Range, 10> kWide = {{{0x1100, 0x115F},
                                          {0x2E80, 0x303E},
                                          {0x3041, 0xA4CF},
                                          {0xAC00, 0xD7A3},
                                          {0xF900, 0xFAFF},
                                          {0xFE30, 0xFE6F},
                                          {0xFF00, 0xFF60},
                                          {0xFFE0, 0xFFE6},
                                          {0x1F300, 0x1FAFF},
                                          {0x20000, 0x3FFFD}}};

constexpr std::array<Range, 3> kCombining = {
    {{0x0300, 0x036F}, {0x1AB0, 0x1AFF}, {0xFE00, 0xFE0F}}};

/// The code point at the start of `text`. REQUIRES: not empty.
CodePoint decode(std::string_view text) {
  char32_t value = 0;
  const int length = decode_utf8(text, 0, value);
  if (length == 0) return {static_cast<unsigned char>(text.front()), 1, false};
  return {value, static_cast<std::size_t>(length), true};
}

std::size_t width_of(char32_t value) {
  if (contains(kCombining, value)) return 0;
  return contains(kWide, value) ? 2 : 1;
}

/// How many bytes of `text` fit in `columns`.
std::size_t bytes_that_fit(std::string_view text, std::size_t columns) {
  std::size_t bytes = 0;
  for (std::size_t used = 0; bytes < text.size();) {
    const CodePoint point = decode(text.substr(bytes));
    used += width_of(point.value);
    if (used > columns) break;
    bytes += point.bytes;
  }
  return bytes;
}

}  // namespace

std::string escape_untrusted(std::string_view text) {
  std::string safe;
  const std::string_view whole = text;
  while (!text.empty()) {
    const CodePoint point = decode(text);
    const bool hidden = !point.valid || is_invisible(point.value) ||
                        starts_workflow_command(whole, whole.size() - text.size());
    if (point.value == '\n') {
      safe += "\\n";
    } else if (point.value == '\t') {
      safe += "\\t";
    } else if (hidden && point.value <= 0xFF) {
      safe += fmt::format("\\x{:02x}", static_cast<std::uint32_t>(point.value));
    } else if (hidden) {
      safe += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(point.value));
    } else {
      safe += text.substr(0, point.bytes);
    }
    text.remove_prefix(point.bytes);
  }
  return safe;
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const CodePoint point = decode(text);
    width += width_of(point.value);
    text.remove_prefix(point.bytes);
  }
  return width;
}

std::string truncate_to_width(std::string_view text, std::size_t columns) {
  if (display_width(text) <= columns) return std::string(text);
  return std::string(text.substr(0, bytes_that_fit(text, columns - 1))) + "…";
}

std::vector<std::string> wrap_to_width(std::string_view text, std::size_t columns,
                                       std::size_t indent) {
  std::vector<std::string> lines;
  std::string margin;
  while (display_width(text) > columns - margin.size()) {
    std::size_t cut = std::max<std::size_t>(1, bytes_that_fit(text, columns - margin.size()));
    const std::size_t space = text.rfind(' ', cut);
    // A break at the line's own indentation would leave an empty line.
    const std::size_t text_start = text.find_first_not_of(' ');
    if (space != std::string_view::npos && space > text_start) cut = space;
    lines.push_back(margin + std::string(text.substr(0, cut)));
    text.remove_prefix(cut);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    margin.assign(indent, ' ');
  }
  if (!text.empty() || lines.empty()) lines.push_back(margin + std::string(text));
  return lines;
}

std::string draw_bar(std::size_t eighths, std::size_t columns) {
  constexpr std::array<const char*, 8> kPartial = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  std::string bar;
  for (std::size_t i = 0; i < eighths / 8; ++i) bar += "█";
  bar += kPartial[eighths % 8];
  bar.append(columns - (eighths + 7) / 8, ' ');
  return bar;
}

std::string markup_text(std::string_view text) {
  constexpr std::string_view kSpecial = "&<>\"'";
  constexpr std::array<const char*, 5> kEntities = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
  std::string escaped;
  for (const char c : escape_untrusted(text)) {
    const std::size_t at = kSpecial.find(c);
    escaped += at == std::string_view::npos ? std::string(1, c) : kEntities.at(at);
  }
  return escaped;
}

}  // namespace shardsim
