#include <fmt/format.h>

#include "reports/band_words.hpp"
#include "reports/html/markup.hpp"
#include "reports/html/parts.hpp"
#include "reports/verdict_words.hpp"

namespace shardsim::html {

namespace {

const char* mark(bool passed) {
  return passed ? "<span class=\"passed\">✓ passed</span>"
                : "<span class=\"failed\">✗ failed</span>";
}

// The words of text_error_band.cpp, with their meaning.
std::string bands(const Result& result) {
  if (result.find(metric::kOraclePassed) != nullptr) return {};
  std::string markup;
  for (const MetricBand& band : result.error_bands) {
    const char* const what = band.metric == metric::kStepTimeS.name ? "step" : "memory on device";
    markup += fmt::format("<li>{} {} ({}). Such bands held {} that they were made without.</li>\n",
                          what, markup_text(band_range(band)),
                          markup_text(band_evidence(band, result)), band_held(band));
  }
  if (!markup.empty()) {
    return "<h3>Error band</h3>\n<p>Where the published runs that are most like this one lie.</p>\n"
           "<ul>\n" +
           markup + "</ul>\n";
  }
  if (result.no_error_band.empty()) return {};
  return "<h3>Error band</h3>\n<p>None: " + markup_text(result.no_error_band) + ".</p>\n";
}

}  // namespace

std::string checks_part(const Input& input) {
  const Result& result = input.result;
  std::string markup;
  if (!result.checks.empty()) {
    Table table("What was verified of this run.",
                {{"check", false}, {"", false}, {"detail", false}});
    for (const Check& check : result.checks) {
      table.add_row({markup_text(check.name), mark(check.passed), markup_text(check.detail)});
    }
    markup += table.markup();
  }
  if (!result.expectations.empty()) {
    Table table("What the scenario expects.", {{"expectation: actual value", false}, {"", false}});
    for (const ExpectationResult& row : result.expectations) {
      table.add_row({markup_text(expectation_text(row)), mark(row.passed)});
    }
    markup += table.markup();
  }
  return markup + bands(result);
}

}  // namespace shardsim::html
