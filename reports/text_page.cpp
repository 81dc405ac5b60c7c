#include <algorithm>
#include <iterator>

#include "reports/terminal_text.hpp"
#include "reports/text_sections.hpp"

namespace shardsim {

namespace {

constexpr std::size_t kMargin = 2;
constexpr std::size_t kLabelColumns = 14;
// Margin, label, the gap and "100.0 %" after the bar, and 42 columns of figures.
constexpr std::size_t kBesideBar = kMargin + kLabelColumns + 11 + 42;

const char* sequence_of(Style style) {
  switch (style) {
    case Style::bold:
      return "\x1b[1m";
    case Style::dim:
      return "\x1b[2m";
    case Style::good:
      return "\x1b[32m";
    case Style::bad:
      return "\x1b[31m";
    case Style::caution:
      return "\x1b[33m";
  }
  return "";
}

}  // namespace

Page::Page(const TextOptions& options)
    : color_(options.color), width_(static_cast<std::size_t>(std::clamp(options.width, 80, 100))) {}

std::size_t Page::bar_columns() const { return width_ - kBesideBar; }

std::string Page::paint(Style style, std::string_view text) const {
  if (!color_ || text.empty()) return std::string(text);
  return sequence_of(style) + std::string(text) + "\x1b[0m";
}

Lines Page::row(std::string_view label, std::string_view text) const {
  std::string start(kMargin, ' ');
  start += label;
  start.resize(kMargin + kLabelColumns, ' ');
  return wrap_to_width(start + std::string(text), width_, kMargin + kLabelColumns);
}

Lines Page::marked(Style style, std::string_view mark, std::string_view text) const {
  Lines lines;
  const std::string margin(kMargin, ' ');
  const std::size_t hang = kMargin + display_width(mark) + 1;
  for (bool first = true; first || !text.empty(); first = false) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string line = escape_untrusted(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    Lines wrapped = wrap_to_width(std::string(hang, ' ') + line, width_, hang + kMargin);
    if (first) wrapped.front().replace(0, hang, margin + paint(style, mark) + " ");
    std::move(wrapped.begin(), wrapped.end(), std::back_inserter(lines));
  }
  return lines;
}

}  // namespace shardsim
