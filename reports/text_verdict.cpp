#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "reports/terminal_text.hpp"
#include "reports/text_sections.hpp"
#include "reports/units.hpp"

namespace shardsim {

namespace {

constexpr const char* kPassed = "✓";
constexpr const char* kFailed = "✗";

void append(Lines& lines, Lines more) {
  std::move(more.begin(), more.end(), std::back_inserter(lines));
}

/// In the unit that the metric's name promises.
std::string format_metric(const std::string& name, double value) {
  if (name.find("bytes_sent") != std::string::npos) return format_traffic(value);
  if (name.find("_bytes") != std::string::npos) return format_memory(value);
  if (name.ends_with("_s") && name.find("_per_s") == std::string::npos) {
    return format_seconds(value);
  }
  return format_number(value);
}

/// A limit as its author wrote it, unless bytes or seconds read better.
std::string format_expected(const std::string& name, double value) {
  const std::string text = format_metric(name, value);
  return text == format_number(value) ? fmt::format("{}", value) : text;
}

std::string expectation_text(const ExpectationResult& row) {
  std::string actual = format_metric(row.metric, row.actual);
  std::string expected = format_expected(row.metric, row.expected);
  // Rounded alike, yet not equal: only all digits show on which side of the limit the value is.
  if (actual == format_metric(row.metric, row.expected) && row.actual != row.expected) {
    actual = fmt::format("{}", row.actual);
    expected = fmt::format("{}", row.expected);
  }
  return fmt::format("{} {} {}: {}", row.metric, row.op, expected, actual);
}

std::string count_of(std::size_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string failures(const Result& result) {
  const auto checks = static_cast<std::size_t>(std::count_if(
      result.checks.begin(), result.checks.end(), [](const Check& c) { return !c.passed; }));
  const auto expectations =
      static_cast<std::size_t>(std::count_if(result.expectations.begin(), result.expectations.end(),
                                             [](const ExpectationResult& e) { return !e.passed; }));
  std::string text;
  if (checks > 0) text += count_of(checks, "check");
  if (checks > 0 && expectations > 0) text += " and ";
  if (expectations > 0) text += count_of(expectations, "expectation");
  return text.empty() ? "FAILED" : "FAILED: " + text;
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

// What the oracle has shown: its detail says what it compared with.
std::string shown_by_oracle(const Result& result) {
  const bool is_other =
      std::any_of(result.checks.begin(), result.checks.end(), [](const Check& check) {
        return check.name == "oracle" &&
               check.detail.find("with the same algorithm") != std::string::npos;
      });
  return is_other ? "OK: trains what one device trains with the same algorithm"
                  : "OK: trains the same model as one device";
}

Lines verdict_section(const Result& result, const Page& page) {
  const auto verdict = [&page](Style style, const std::string& text) {
    return Lines{"  " + page.paint(style, truncate_to_width(text, page.width() - 2))};
  };
  switch (static_cast<ExitCode>(result.exit_code)) {
    case ExitCode::ok:
      return verdict(Style::good, result.number("oracle.passed").value_or(0) != 0
                                      ? shown_by_oracle(result)
                                      : std::string("OK"));
    case ExitCode::check_failed:
      return verdict(Style::bad, failures(result));
    case ExitCode::does_not_fit:
      return verdict(Style::bad, "DOES NOT FIT");
    case ExitCode::communication:
      return verdict(
          Style::bad,
          fmt::format("FAILED: {} in the communication between ranks",
                      result.diagnosis ? escape_untrusted(result.diagnosis->code) : "an error"));
    case ExitCode::backend_failed:
      return verdict(
          Style::bad,
          fmt::format("FAILED: {} on the real backend",
                      result.diagnosis ? escape_untrusted(result.diagnosis->code) : "an error"));
    default:
      return verdict(Style::bad, fmt::format("FAILED (exit code {})", result.exit_code));
  }
}

}  // namespace shardsim
