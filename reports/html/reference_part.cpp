#include <algorithm>

#include <fmt/format.h>

#include "reports/html/markup.hpp"
#include "reports/html/parts.hpp"
#include "reports/units.hpp"
#include "reports/verdict_words.hpp"

namespace shardsim::html {

namespace {

const char* mark(bool passed) {
  return passed ? "<span class=\"passed\">✓ passed</span>"
                : "<span class=\"failed\">✗ failed</span>";
}

// The words of error_band_section (text_verdict.cpp), with their meaning.
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

// "2.50 s" beside 2.5; counts with all their digits, and nothing beside text.
std::string readable(const Metric& metric) {
  if (const auto* real = std::get_if<double>(&metric.value)) {
    return format_metric(metric.name, *real);
  }
  const auto* integer = std::get_if<std::int64_t>(&metric.value);
  if (integer == nullptr) return {};
  const auto value = static_cast<double>(*integer);
  const std::string text = format_metric(metric.name, value);
  return text == format_number(value) ? format_count(*integer) : text;
}

Table metrics_table(const char* caption, const std::vector<Metric>& metrics) {
  Table table(caption, text_and_numbers({"name", "in short", "value"}));
  for (const Metric& metric : metrics) {
    table.add_row({"<code>" + markup_text(metric.name) + "</code>", markup_text(readable(metric)),
                   "<code>" + markup_text(metric_json(metric.value)) + "</code>"});
  }
  return table;
}

}  // namespace

std::string checks_part(const Input& input) {
  const Result& result = input.result;
  std::string markup;
  if (!result.checks.empty()) {
    Table table("Checks of this run.", {{"check"}, {""}, {"detail"}});
    for (const Check& check : result.checks) {
      table.add_row(
          {markup_text(check.name), mark(check.passed), markup_text(grouped_digits(check.detail))});
    }
    markup += table.markup();
  }
  if (!result.expectations.empty()) {
    Table table("Expectations of the scenario.", {{"expectation: actual value"}, {""}});
    for (const ExpectationResult& row : result.expectations) {
      table.add_row({markup_text(expectation_text(row, result)), mark(row.passed)});
    }
    markup += table.markup();
  }
  return markup + bands(result);
}

std::string assumptions_part(const Input& input) {
  const std::vector<Assumption>& rows = input.result.assumptions;
  if (rows.empty()) return {};
  const auto assumed = std::ranges::count_if(rows, &Assumption::is_assumed);
  Table table("Numbers and simplifications behind the result.", {{"assumption"}, {"source"}});
  table.set_id("assumptions-table");
  for (const Assumption& row : rows) {
    // Years have four digits, and sources have numbers that are names.
    table.add_row({markup_text(grouped_digits(row.text, 5)), markup_text(row.source)});
  }
  std::string markup = fmt::format("<p>{}, {} without a published source.</p>\n",
                                   count_of(rows.size(), "assumption"), assumed);
  return markup + search_field("assumptions-table", "Search the assumptions") + table.markup();
}

std::string metrics_part(const Input& input) {
  if (input.result.metrics.empty()) return {};
  Table table =
      metrics_table("Every metric of the result: names and values are those of result.json.",
                    input.result.metrics);
  table.set_id("metrics-table");
  std::string markup = search_field("metrics-table", "Search the metrics") + table.markup();
  if (!input.result.measured.empty()) {
    markup += metrics_table("Measured on real processes; differences are measured less simulated.",
                            input.result.measured)
                  .markup();
  }
  return markup;
}

std::string scenario_part(const Input& input) {
  const std::string notes = list_items(input.detail.notes);
  std::string markup;
  if (!notes.empty()) markup += "<h3>What this page leaves out</h3>\n<ul>\n" + notes + "</ul>\n";
  return markup +
         "<details class=\"long\"><summary>The scenario with nothing left out, as JSON</summary>\n"
         "<pre>" +
         markup_lines(pretty_json(input.result.scenario_json)) + "</pre></details>\n";
}

}  // namespace shardsim::html
