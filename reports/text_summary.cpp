#include "reports/text_summary.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "reports/terminal_text.hpp"
#include "reports/text_sections.hpp"

namespace shardsim {

namespace {

constexpr std::size_t kMaxLines = 24;

/// A section and how far it may be cut when the screen is full. Blocks are cut in the order of
/// `cut_order`, from 1; 0 means never.
struct Block {
  Lines lines;
  int cut_order = 0;
  std::size_t least_lines = 0;
};

std::size_t count_lines(const std::vector<Block>& blocks) {
  return std::accumulate(
      blocks.begin(), blocks.end(), std::size_t{0},
      [](std::size_t sum, const Block& block) { return sum + block.lines.size(); });
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

}  // namespace

std::string to_text(const Result& result, const TextHeadline& headline,
                    const TextOptions& options) {
  const Page page(options);
  std::vector<Block> blocks = {
      {headline_section(headline, page)},
      {figures_section(result, page), 7, 1},
      {error_band_section(result, page), 10, 1},
      {time_section(result, page)},
      {goodput_section(result, page)},
      {memory_section(result, headline.device_memory_bytes, page), 2, 2},
      {traffic_section(result, page), 4, 1},
      {cost_section(result, headline, page)},
      {expert_section(result, page)},
      {loss_scale_section(result, headline.steps, page)},
      {oracle_section(result, page), 8, 1},
      {measured_section(result, page)},
      {checks_section(result, page)},
      {schedules_section(result, page), 11, 1},
      {expectations_section(result, true, page), 1, 1},
      {expectations_section(result, false, page), 5, 1},
      {failed_checks_section(result, page), 6, 2},
      {diagnosis_section(result, page), 9, 4},
      {warnings_section(result, page), 3, 1},
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

}  // namespace shardsim
