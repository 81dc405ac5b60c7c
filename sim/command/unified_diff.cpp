#include "sim/command/unified_diff.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace shardsim {

namespace {

constexpr std::size_t kContext = 3;

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::size_t length = end == std::string_view::npos ? text.size() : end + 1;
    lines.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return lines;
}

struct DiffLine {
  char mark = ' ';  // ' ', '-' or '+'
  std::string_view text;
};

using DiffLines = std::vector<std::string_view>;

// Rewrites touch few lines and nearly keep their number. So a missing line is searched a little
// further on each side; if it is not found there, it is replaced.
std::vector<DiffLine> compared(const DiffLines& before, const DiffLines& after) {
  constexpr std::size_t kReach = 50;
  std::vector<DiffLine> out;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < before.size() || j < after.size()) {
    if (i < before.size() && j < after.size() && before[i] == after[j]) {
      out.push_back({' ', before[i++]});
      ++j;
      continue;
    }
    // The nearest pair of equal lines ahead, counted on both sides together.
    std::size_t skip_before = before.size() - i;
    std::size_t skip_after = after.size() - j;
    for (std::size_t sum = 1; sum <= kReach; ++sum) {
      bool found = false;
      for (std::size_t ahead = 0; ahead <= sum && !found; ++ahead) {
        const std::size_t at_before = i + ahead;
        const std::size_t at_after = j + sum - ahead;
        if (at_before >= before.size() || at_after >= after.size()) continue;
        if (before[at_before] != after[at_after]) continue;
        skip_before = ahead;
        skip_after = sum - ahead;
        found = true;
      }
      if (found) break;
    }
    for (std::size_t k = 0; k < skip_before; ++k) out.push_back({'-', before[i++]});
    for (std::size_t k = 0; k < skip_after; ++k) out.push_back({'+', after[j++]});
  }
  return out;
}

std::string printed(const DiffLine& line) {
  std::string out = line.mark + std::string(line.text);
  if (out.back() != '\n') out += "\n\\ No newline at end of file\n";
  return out;
}

std::size_t count_but(const std::vector<DiffLine>& lines, std::size_t from, std::size_t to,
                      char mark) {
  return static_cast<std::size_t>(
      std::count_if(lines.begin() + static_cast<std::ptrdiff_t>(from),
                    lines.begin() + static_cast<std::ptrdiff_t>(to),
                    [mark](const DiffLine& line) { return line.mark != mark; }));
}

// "@@ -3,7 +3,7 @@": the places of the lines [from, to); an empty side names the line before it.
std::string header(const std::vector<DiffLine>& lines, std::size_t from, std::size_t to) {
  const std::size_t old_count = count_but(lines, from, to, '+');
  const std::size_t new_count = count_but(lines, from, to, '-');
  return fmt::format("@@ -{},{} +{},{} @@\n",
                     count_but(lines, 0, from, '+') + (old_count > 0 ? 1 : 0), old_count,
                     count_but(lines, 0, from, '-') + (new_count > 0 ? 1 : 0), new_count);
}

}  // namespace

std::string unified_diff(const std::string& before, const std::string& after,
                         const std::string& name) {
  if (before == after) return "";
  const std::vector<DiffLine> lines = compared(lines_of(before), lines_of(after));
  std::string out = fmt::format("--- a/{0}\n+++ b/{0}\n", name);
  std::size_t at = 0;
  while (at < lines.size()) {
    if (lines[at].mark == ' ') {
      ++at;
      continue;
    }
    const std::size_t from = at - std::min(at, kContext);
    std::size_t to = at + 1;  // Behind the last change of this part, and its context.
    for (std::size_t k = at; k < lines.size() && k < to + 2 * kContext; ++k) {
      if (lines[k].mark != ' ') to = k + 1;
    }
    at = to;
    to = std::min(lines.size(), to + kContext);
    out += header(lines, from, to);
    for (std::size_t k = from; k < to; ++k) out += printed(lines[k]);
  }
  return out;
}

}  // namespace shardsim
