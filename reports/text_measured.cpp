#include <fmt/format.h>

#include "reports/terminal_text.hpp"
#include "reports/text_sections.hpp"
#include "reports/units.hpp"

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

}  // namespace

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

}  // namespace shardsim
