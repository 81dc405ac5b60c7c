#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "reports/terminal_text.hpp"
#include "reports/text_sections.hpp"
#include "reports/units.hpp"
#include "reports/verdict_words.hpp"

namespace shardsim {
namespace {

/// A limit as its author wrote it, unless bytes or seconds read better.
std::string format_expected(const std::string& name, double value) {
  const std::string text = format_metric(name, value);
  return text == format_number(value) ? fmt::format("{}", value) : text;
}

std::string failures(const Result& result) {
  const auto failed_of = [](const auto& rows) {
    return static_cast<std::size_t>(
        std::ranges::count_if(rows, [](const auto& row) { return !row.passed; }));
  };
  const std::size_t checks = failed_of(result.checks);
  const std::size_t expectations = failed_of(result.expectations);
  std::string text;
  if (checks > 0) text += count_of(checks, "check");
  if (checks > 0 && expectations > 0) text += " and ";
  if (expectations > 0) text += count_of(expectations, "expectation");
  return text.empty() ? "FAILED" : "FAILED: " + text;
}

// The result of the oracle; the detail of its check names the algorithm it compared with.
std::string shown_by_oracle(const Result& result) {
  const bool is_other = std::ranges::any_of(result.checks, [](const Check& check) {
    return check.name == "oracle" &&
           check.detail.find("with the same algorithm") != std::string::npos;
  });
  return is_other ? "OK: trains what one device trains with the same algorithm"
                  : "OK: trains the same model as one device";
}

// ", too few on blackwell": why the runs are not more like the plan.
std::string too_few_text(const MetricBand& band) {
  return band.too_few.empty() ? "" : ", too few " + band.too_few;
}

// Tells the range of the runs' GPU counts if the plan has more or fewer ranks than all runs.
std::string scale_text(const MetricBand& band, double ranks) {
  if (ranks > static_cast<double>(band.most_ranks)) {
    return fmt::format(", up to {} GPUs", format_count(band.most_ranks));
  }
  if (ranks < static_cast<double>(band.least_ranks)) {
    return fmt::format(", from {} GPUs", format_count(band.least_ranks));
  }
  return {};
}

std::string range_of(std::string low, const std::string& high) {
  const std::string unit = high.substr(high.rfind(' '));
  if (low.ends_with(unit)) low.resize(low.size() - unit.size());
  return low + " to " + high;
}

std::string text_of(const Result& result, const std::string& name) {
  const MetricValue* const value = value_of(result.measured, name);
  const auto* const text = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return text == nullptr ? "" : escape_untrusted(*text);
}

// Whole or, where steps were skipped, a mean.
double number_of(const Result& result, const std::string& name) {
  const MetricValue* const value = value_of(result.measured, name);
  return value == nullptr ? 0.0 : as_number(*value).value_or(0.0);
}

std::string sent(const Result& result, const std::string& name) {
  const double difference = number_of(result, "difference." + name);
  return format_traffic(number_of(result, name)) +
         (difference == 0.0 ? ", as simulated"
                            : fmt::format(", {:+.0f} B against the simulation", difference));
}

// Whether pages show the centre of a band for this metric: its own band, or the step's.
bool has_centre(const std::string& metric, const Result& result) {
  if (!result.no_error_band.empty()) return false;
  const auto is_band_of = [&result](const std::string& name) {
    return std::ranges::find(result.error_bands, name, &MetricBand::metric) !=
           result.error_bands.end();
  };
  const bool follows_step = metric == metric::kMfu.name || metric == metric::kTokensPerS.name ||
                            metric == metric::kTokensPerSPerGpu.name || metric.starts_with("cost.");
  return is_band_of(metric) || (follows_step && is_band_of(metric::kStepTimeS.name));
}

constexpr const char* kPassed = "✓";
constexpr const char* kFailed = "✗";

}  // namespace

std::string count_of(std::size_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string format_metric(const std::string& name, double value) {
  if (name.find("bytes_sent") != std::string::npos) return format_traffic(value);
  if (name.find("_bytes") != std::string::npos) return format_memory(value);
  if (name.ends_with("_s") && name.find("_per_s") == std::string::npos) {
    return format_seconds(value);
  }
  return format_number(value);
}

std::string expectation_text(const ExpectationResult& row, const Result& result) {
  if (std::isnan(row.actual)) {
    return fmt::format("{} {} {}: this run has no such metric", row.metric, row.op,
                       format_expected(row.metric, row.expected));
  }
  std::string actual = format_metric(row.metric, row.actual);
  std::string expected = format_expected(row.metric, row.expected);
  // Both round to the same text: only all digits show on which side of the limit the value is.
  if (actual == format_metric(row.metric, row.expected) && row.actual != row.expected) {
    actual = fmt::format("{}", row.actual);
    expected = fmt::format("{}", row.expected);
  }
  return fmt::format("{} {} {}: {}{}", row.metric, row.op, expected, actual,
                     has_centre(row.metric, result) ? " by the model" : "");
}

std::string verdict_text(const Result& result) {
  const auto in = [&result](const char* where) {
    return fmt::format("FAILED: {} {}",
                       result.diagnosis ? escape_untrusted(result.diagnosis->code) : "an error",
                       where);
  };
  switch (static_cast<ExitCode>(result.exit_code)) {
    case ExitCode::ok:
      return result.number(metric::kOraclePassed).value_or(0) != 0 ? shown_by_oracle(result)
                                                                   : std::string("OK");
    case ExitCode::check_failed:
      return failures(result);
    case ExitCode::does_not_fit:
      return "DOES NOT FIT";
    case ExitCode::communication:
      return in("in the communication between ranks");
    case ExitCode::backend_failed:
      return in("on the real backend");
    default:
      return fmt::format("FAILED (exit code {})", result.exit_code);
  }
}

std::string band_range(const MetricBand& band) {
  return range_of(format_metric(band.metric, band.low), format_metric(band.metric, band.high));
}

std::string band_centre(const MetricBand& band) {
  return "about " + format_metric(band.metric, band.centre);
}

std::string by_the_model(const MetricBand& band, double simulated) {
  return "by the model " + simulated_words(band, simulated);
}

std::string simulated_words(const MetricBand& band, double simulated) {
  std::string text = format_metric(band.metric, simulated);
  if (simulated >= band.low && simulated <= band.high) return text;
  return text +
         fmt::format(" (outside that range: this group's bias is {:+.0f} %)", 100 * band.bias);
}

std::string band_evidence(const MetricBand& band, const Result& result) {
  const double ranks = result.number(metric::kRanks).value_or(static_cast<double>(band.most_ranks));
  return fmt::format("{} measured of {}", format_count(band.runs), band.group) +
         too_few_text(band) + scale_text(band, ranks);
}

std::string band_words(const MetricBand& band, const Result& result) {
  return fmt::format("{} {}, {} ({})",
                     band.metric == metric::kStepTimeS.name ? "step" : "on device",
                     band_centre(band), band_range(band), band_evidence(band, result));
}

std::string band_held(const MetricBand& band) {
  return fmt::format("{} % of runs", 10 * std::lround(10.0 * band.held_out_share));
}

Lines error_band_section(const Result& result, const Page& page) {
  if (result.find(metric::kOraclePassed) != nullptr) return {};
  if (!result.no_error_band.empty()) {
    return page.row("error band", "none: " + result.no_error_band);
  }
  const MetricBand* const memory = result.band_of(metric::kMemoryDeviceBytesMax);
  if (memory == nullptr) return {};
  const auto simulated = result.number(metric::kMemoryDeviceBytesMax);
  if (!simulated) return {};
  // One line: the report and the JSON say which runs they are.
  return page.row(band_held(*memory),
                  fmt::format("on device {}, {} ({} measured{}); {}", band_centre(*memory),
                              band_range(*memory), format_count(memory->runs),
                              too_few_text(*memory), by_the_model(*memory, *simulated)));
}

Lines measured_section(const Result& result, const Page& page) {
  if (result.measured.empty()) return {};
  std::string text = fmt::format(
      "{} on {:.0f} processes ({}): {} values, {} with other bits than simulated; ",
      text_of(result, "backend"), number_of(result, "processes"), text_of(result, "library"),
      format_count(static_cast<std::int64_t>(number_of(result, "values.compared"))),
      format_count(static_cast<std::int64_t>(number_of(result, "values.different_bits"))));
  text += "sent per step " + sent(result, metric::kCommBytesSentTotal.name);
  if (value_of(result.measured, "wire.bytes_sent.total") != nullptr) {
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
                              expectation_text(row, result)));
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
  const auto assumed = std::ranges::count_if(result.assumptions, &Assumption::is_assumed);
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
