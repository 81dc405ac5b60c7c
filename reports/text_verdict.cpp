#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "reports/terminal_text.hpp"
#include "reports/text_sections.hpp"
#include "reports/units.hpp"
#include "reports/verdict_words.hpp"

namespace shardsim {

namespace {

const MetricValue* find_measured(const Result& result, const std::string& name) {
  for (const Metric& metric : result.measured) {
    if (metric.name == name) return &metric.value;
  }
  return nullptr;
}

std::string text_of(const Result& result, const std::string& name) {
  const MetricValue* const value = find_measured(result, name);
  const auto* const text = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return text == nullptr ? "" : escape_untrusted(*text);
}

// Whole or, where steps were skipped, a mean.
double number_of(const Result& result, const std::string& name) {
  const MetricValue* const value = find_measured(result, name);
  if (value == nullptr) return 0.0;
  if (const auto* const whole = std::get_if<std::int64_t>(value)) {
    return static_cast<double>(*whole);
  }
  const auto* const number = std::get_if<double>(value);
  return number == nullptr ? 0.0 : *number;
}

std::string sent(const Result& result, const std::string& name) {
  const double difference = number_of(result, "difference." + name);
  return format_traffic(number_of(result, name)) +
         (difference == 0.0 ? ", as simulated"
                            : fmt::format(", {:+.0f} B against the simulation", difference));
}

constexpr const char* kPassed = "✓";
constexpr const char* kFailed = "✗";

void append(Lines& lines, Lines more) {
  std::move(more.begin(), more.end(), std::back_inserter(lines));
}

}  // namespace

Lines error_band_section(const Result& result, const Page& page) {
  if (result.find(metric::kOraclePassed) != nullptr) return {};
  if (!result.no_error_band.empty()) {
    return page.row("error band", "none: " + result.no_error_band);
  }
  Lines lines;
  for (const MetricBand& band : result.error_bands) {
    const char* const what = band.metric == metric::kStepTimeS.name ? "step" : "on device";
    Lines row = page.row(band_held(band), fmt::format("{} {} ({})", what, band_range(band),
                                                      band_evidence(band, result)));
    std::move(row.begin(), row.end(), std::back_inserter(lines));
  }
  return lines;
}

Lines measured_section(const Result& result, const Page& page) {
  if (result.measured.empty()) return {};
  std::string text = fmt::format(
      "{} on {:.0f} processes ({}): {} values, {} with other bits than simulated; ",
      text_of(result, "backend"), number_of(result, "processes"), text_of(result, "library"),
      format_count(static_cast<std::int64_t>(number_of(result, "values.compared"))),
      format_count(static_cast<std::int64_t>(number_of(result, "values.different_bits"))));
  text += "sent per step " + sent(result, metric::kCommBytesSentTotal.name);
  if (find_measured(result, "wire.bytes_sent.total") != nullptr) {
    text += ", with scalars on the wire " + sent(result, "wire.bytes_sent.total");
  }
  return page.row("measured", text);
}

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
  std::string text = std::to_string(result.assumptions.size());
  if (assumed > 0) text += fmt::format(", {} without a published source", assumed);
  return page.row("assumptions", text + "; --assumptions lists them");
}

Lines verdict_section(const Result& result, const Page& page) {
  const bool is_ok = result.exit_code == static_cast<int>(ExitCode::ok);
  const std::string text = truncate_to_width(verdict_text(result), page.width() - 2);
  return {"  " + page.paint(is_ok ? Style::good : Style::bad, text)};
}

}  // namespace shardsim
