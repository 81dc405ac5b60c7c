#include "reports/text_summary.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "reports/terminal_text.hpp"
#include "reports/text_sections.hpp"

namespace shardsim {

namespace {

constexpr std::size_t kMargin = 2;
constexpr std::size_t kLabelColumns = 14;
// Margin, label, the gap and "100.0 %" after the bar, and 42 columns of figures.
constexpr std::size_t kBesideBar = kMargin + kLabelColumns + 11 + 42;

// Escape sequences, by Style.
constexpr std::array kSequences = {"\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[31m", "\x1b[33m"};

constexpr std::size_t kMaxLines = 24;

/// A section and how far it may be cut when the screen is full. Blocks are cut in the order of
/// `cut_order`, from 1; 0 means never. Expectations are never cut: somebody asked for each.
struct Block {
  Lines lines;
  int cut_order = 0;
  std::size_t least_lines = 0;
};

std::size_t count_lines(const std::vector<Block>& blocks) {
  return std::transform_reduce(blocks.begin(), blocks.end(), std::size_t{0}, std::plus(),
                               [](const Block& block) { return block.lines.size(); });
}

/// Shortens `block` by up to `excess` lines; the last line left tells how many are missing.
void cut(Block& block, std::size_t excess) {
  const std::size_t size = block.lines.size();
  if (size <= block.least_lines) return;
  const std::size_t kept = std::max(block.least_lines, size - std::min(size, excess));
  block.lines.resize(kept - 1);
  block.lines.push_back(fmt::format("    ... {} more lines in --json", size - kept + 1));
}

void fit_screen(std::vector<Block>& blocks) {
  for (int order = 1; order <= static_cast<int>(blocks.size()); ++order) {
    const std::size_t lines = count_lines(blocks);
    if (lines <= kMaxLines) return;
    for (Block& block : blocks) {
      if (block.cut_order == order) cut(block, lines - kMaxLines);
    }
  }
}

constexpr std::size_t kSourceIndent = 2;
constexpr std::size_t kTextIndent = 4;

// Sources in the order of the result; those without a publication come first.
std::vector<std::string> sources_of(const Result& result) {
  std::vector<Assumption> rows = result.assumptions;
  std::stable_partition(rows.begin(), rows.end(),
                        [](const Assumption& row) { return row.is_assumed(); });
  std::vector<std::string> sources;
  for (const Assumption& row : rows) {
    if (std::ranges::find(sources, row.source) == sources.end()) sources.push_back(row.source);
  }
  return sources;
}

std::string wrapped(const std::string& text, std::size_t indent, std::size_t width) {
  // A deeper indent of later lines shows where the next assumption begins.
  std::string out;
  for (const std::string& line :
       wrap_to_width(std::string(indent, ' ') + escape_untrusted(text), width, indent + 2)) {
    out += line + "\n";
  }
  return out;
}

}  // namespace

Page::Page(const TextOptions& options)
    : color_(options.color), width_(static_cast<std::size_t>(std::clamp(options.width, 80, 100))) {}

std::size_t Page::bar_columns() const { return width_ - kBesideBar; }

std::string Page::paint(Style style, std::string_view text) const {
  if (!color_ || text.empty()) return std::string(text);
  return kSequences.at(static_cast<std::size_t>(style)) + std::string(text) + "\x1b[0m";
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
    append(lines, wrapped);
  }
  return lines;
}

std::string to_text(const Result& result, const TextHeadline& headline,
                    const TextOptions& options) {
  const Page page(options);
  std::vector<Block> blocks = {
      {headline_section(headline, page)},
      {figures_section(result, page), 7, 1},
      {mfu_section(result, headline, page)},
      {error_band_section(result, page), 10, 1},
      {time_section(result, page)},
      {goodput_section(result, page)},
      {draws_section(result, page)},
      {memory_section(result, headline.device_memory_bytes, page), 2, 2},
      {traffic_section(result, page), 3, 1},
      {cost_section(result, headline, page)},
      {expert_section(result, page)},
      {loss_scale_section(result, headline.steps, page)},
      {oracle_section(result, page), 8, 1},
      {measured_section(result, page)},
      {checks_section(result, page)},
      {schedules_section(result, page), 11, 1},
      {expectations_section(result, true, page)},
      {expectations_section(result, false, page)},
      {failed_checks_section(result, page), 6, 2},
      {diagnosis_section(result, page), 9, 4},
      {warnings_section(result, page), 4, 1},
      {assumptions_section(result, page)},
      {verdict_section(result, page)},
  };
  if (!options.next_command.empty()) {
    const std::string next = "  Next: " + escape_untrusted(options.next_command);
    blocks.push_back({{truncate_to_width(next, page.width())}});
  }
  fit_screen(blocks);
  std::string text;
  for (const Block& block : blocks) {
    for (const std::string& line : block.lines) text += line + "\n";
  }
  return text;
}

std::string assumptions_text(const Result& result, std::size_t width) {
  std::string out = fmt::format("\n{} numbers and simplifications, below their sources:\n",
                                result.assumptions.size());
  for (const std::string& source : sources_of(result)) {
    out += wrapped(source + ":", kSourceIndent, width);
    for (const Assumption& assumption : result.assumptions) {
      if (assumption.source == source) out += wrapped(assumption.text, kTextIndent, width);
    }
  }
  return out;
}

}  // namespace shardsim
