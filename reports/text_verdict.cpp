#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "reports/terminal_text.hpp"
#include "reports/text_sections.hpp"
#include "reports/verdict_words.hpp"

namespace shardsim {

namespace {

constexpr const char* kPassed = "✓";
constexpr const char* kFailed = "✗";

void append(Lines& lines, Lines more) {
  std::move(more.begin(), more.end(), std::back_inserter(lines));
}

}  // namespace

Lines failed_checks_section(const Result& result, const Page& page) {
  Lines lines;
  for (const Check& check : result.checks) {
    if (!check.passed) {
      append(lines, page.marked(Style::bad, kFailed,
                                check.name + (check.detail.empty() ? "" : ": " + check.detail)));
    }
  }
  return lines;
}

Lines expectations_section(const Result& result, bool passed, const Page& page) {
  Lines lines;
  for (const ExpectationResult& row : result.expectations) {
    if (row.passed != passed) continue;
    append(lines, page.marked(passed ? Style::good : Style::bad, passed ? kPassed : kFailed,
                              expectation_text(row)));
  }
  return lines;
}

Lines diagnosis_section(const Result& result, const Page& page) {
  if (!result.diagnosis) return {};
  std::string text = result.diagnosis->to_text();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return page.marked(Style::bad, kFailed, text);
}

Lines warnings_section(const Result& result, const Page& page) {
  Lines lines;
  for (const std::string& warning : result.warnings) {
    append(lines, page.marked(Style::caution, "warning:", warning));
  }
  return lines;
}

Lines assumptions_section(const Result& result, const Page& page) {
  if (result.assumptions.empty()) return {};
  const auto assumed = std::count_if(
      result.assumptions.begin(), result.assumptions.end(),
      [](const Assumption& assumption) { return assumption.source.starts_with("assumed"); });
  std::string text = count_of(result.assumptions.size(), "assumption");
  if (assumed > 0) text += fmt::format(", {} without a published source", assumed);
  return page.row("rests on", text + "; --assumptions lists them");
}

Lines verdict_section(const Result& result, const Page& page) {
  const bool is_ok = result.exit_code == static_cast<int>(ExitCode::ok);
  const std::string text = truncate_to_width(verdict_text(result), page.width() - 2);
  return {"  " + page.paint(is_ok ? Style::good : Style::bad, text)};
}

}  // namespace shardsim
