#include <fmt/format.h>

#include "reports/html/markup.hpp"
#include "reports/html/parts.hpp"
#include "reports/verdict_words.hpp"

namespace shardsim::html {

std::string problems(const Input& input) {
  const Result& result = input.result;
  std::string failed;
  for (const Check& check : result.checks) {
    if (check.passed) continue;
    failed += fmt::format("<li>check {}{}{}</li>\n", markup_text(check.name),
                          check.detail.empty() ? "" : ": ", markup_text(check.detail));
  }
  for (const ExpectationResult& row : result.expectations) {
    if (!row.passed) failed += "<li>expected " + markup_text(expectation_text(row)) + "</li>\n";
  }
  std::string markup;
  if (!failed.empty()) {
    markup += "<div class=\"box bad\"><h3>What failed</h3><ul>\n" + failed + "</ul></div>\n";
  }
  if (result.diagnosis) {
    markup += fmt::format("<div class=\"box bad\"><h3>Diagnosis</h3><pre>{}</pre></div>\n",
                          markup_lines(result.diagnosis->to_text()));
  }
  std::string warnings;
  for (const std::string& warning : result.warnings) {
    warnings += "<li>" + markup_text(warning) + "</li>\n";
  }
  if (!warnings.empty()) {
    markup += fmt::format("<div class=\"box caution\"><h3>{}</h3><ul>\n{}</ul></div>\n",
                          count_of(result.warnings.size(), "warning"), warnings);
  }
  return markup;
}

}  // namespace shardsim::html
