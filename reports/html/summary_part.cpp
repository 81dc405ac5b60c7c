#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "reports/html/markup.hpp"
#include "reports/html/parts.hpp"
#include "reports/units.hpp"
#include "reports/verdict_words.hpp"

namespace shardsim::html {
namespace {

// Many warnings would push the numbers off the first screen.
// On paper a long diagnosis has its first lines.
std::string diagnosis_box(const std::string& text) {
  constexpr std::ptrdiff_t kLinesOnPaper = 10;
  const std::ptrdiff_t lines = std::ranges::count(text, '\n');
  std::size_t end = text.size();
  if (lines > kLinesOnPaper) {
    end = 0;
    for (std::ptrdiff_t line = 0; line < kLinesOnPaper; ++line) end = text.find('\n', end) + 1;
  }
  const std::string rest = end == text.size() ? std::string()
                                              : "<span class=\"screen-only\">" +
                                                    markup_lines(text.substr(end)) + "</span>";
  return fmt::format("<div class=\"box bad\"><h3>Diagnosis</h3><pre>{}{}</pre>{}</div>\n",
                     markup_lines(text.substr(0, end)), rest,
                     more_on_screen(static_cast<std::size_t>(lines), kLinesOnPaper));
}

std::string warnings(const std::vector<std::string>& warnings) {
  constexpr std::size_t kMostUnfolded = 2;
  if (warnings.empty()) return {};
  std::vector<std::string> grouped;
  for (const std::string& warning : warnings) grouped.push_back(grouped_digits(warning));
  const std::string count = count_of(warnings.size(), "warning");
  const std::string list = "<ul>\n" + list_items(grouped) + "</ul>\n";
  return warnings.size() <= kMostUnfolded
             ? fmt::format("<div class=\"box caution\"><h3>{}</h3>{}</div>\n", count, list)
             : fmt::format("<div class=\"box caution\">{}</div>\n", folded(count, list));
}

// Failed checks and expectations, the diagnosis, warnings.
std::string problems(const Input& input) {
  const Result& result = input.result;
  std::vector<std::string> failed;
  for (const Check& check : result.checks) {
    if (check.passed) continue;
    failed.push_back("check " + check.name + (check.detail.empty() ? "" : ": ") + check.detail);
  }
  for (const ExpectationResult& row : result.expectations) {
    if (!row.passed) failed.push_back("expected " + expectation_text(row, result));
  }
  std::string markup;
  if (!failed.empty()) {
    markup += "<div class=\"box bad\"><h3>What failed</h3>" + brief_list(failed) + "</div>\n";
  }
  if (result.diagnosis) markup += diagnosis_box(result.diagnosis->to_text());
  return markup + warnings(result.warnings);
}

}  // namespace

std::string masthead(const Input& input) {
  TextHeadline headline = input.headline;
  headline.batch = grouped_digits(headline.batch);
  // Behind the number of nodes are names of machines, which keep their digits.
  const std::size_t nodes = std::min(headline.system.find(' '), headline.system.size());
  headline.system =
      grouped_digits(headline.system.substr(0, nodes)) + headline.system.substr(nodes);
  std::string facts;
  for (const std::string& fact : facts_of(headline)) {
    facts += (facts.empty() ? "" : " · ") + markup_text(fact);
  }
  const std::string name = headline.name.empty() ? std::string("A training step") : headline.name;
  return fmt::format(
      "<p class=\"eyebrow\">shardsim: a simulated training step</p>\n<h1>{}</h1>\n"
      "<p class=\"facts\">{}</p>\n{}",
      markup_text(name), facts, page_buttons());
}

// One screen: the verdict, the numbers, and two charts. Words and problems follow below them.
std::string summary_part(const Input& input) {
  const bool is_ok = input.result.exit_code == 0;
  const std::string charts = time_overview(input) + memory_overview(input);
  const std::string words = summary_words(input);
  // Verdicts have a mark beside their colour; the functions that word them escape their text.
  return fmt::format(
      "<p class=\"verdict {}\">{} {}</p>\n{}{}{}{}", is_ok ? "ok" : "bad", is_ok ? "✓" : "✗",
      markup_text(verdict_text(input.result)), is_ok ? "" : problems(input), tiles(input),
      charts.empty() ? charts : "<div class=\"pair\">\n" + charts + "</div>\n",
      fmt::format("<p class=\"lead\">{}</p>\n{}", words, is_ok ? problems(input) : ""));
}

}  // namespace shardsim::html
