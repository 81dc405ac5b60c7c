#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "reports/text_sections.hpp"
#include "reports/units.hpp"

namespace shardsim {

namespace {

// ", 16 on h100-sxm"; what holds for all needs no number.
std::string part_text(std::int64_t part, std::int64_t whole, const std::string& words) {
  if (part == whole) return " " + words;
  return ", " + (part == 0 ? "none" : format_count(part)) + " " + words;
}

std::string runs_text(const MetricBand& band) {
  const bool has_framework = band.software != "none";
  const bool is_foreign = band.runs_on_device == 0 && band.runs_with_software == 0;
  std::string text = format_count(band.runs) + " measured";
  text += part_text(band.runs_on_device, band.runs, "on " + band.device);
  if (!has_framework) return text + ", any framework";
  if (is_foreign) return text + " or " + band.software;
  return text + part_text(band.runs_with_software, band.runs, "with " + band.software);
}

// Where the plan has more ranks than any of the runs, or fewer.
std::string scale_text(const MetricBand& band, double ranks) {
  if (ranks > static_cast<double>(band.most_ranks)) {
    return fmt::format(", up to {} GPUs", format_count(band.most_ranks));
  }
  if (ranks < static_cast<double>(band.least_ranks)) {
    return fmt::format(", from {} GPUs", format_count(band.least_ranks));
  }
  return {};
}

// "1.92 to 2.55 s", "980 ms to 1.20 s".
std::string range_text(std::string low, const std::string& high) {
  const std::string unit = high.substr(high.rfind(' '));
  if (low.ends_with(unit)) low.resize(low.size() - unit.size());
  return low + " to " + high;
}

// How many runs of a table that bands do not know they held, not how many they are made to hold.
std::string label_text(const MetricBand& band) {
  return fmt::format("{} of 10 runs", std::lround(10.0 * band.held_out_share));
}

std::string band_text(const MetricBand& band) {
  if (band.metric == "step_time_s") {
    return "step " + range_text(format_seconds(band.low), format_seconds(band.high));
  }
  return "on device " + range_text(format_memory(band.low), format_memory(band.high));
}

}  // namespace

Lines error_band_section(const Result& result, const Page& page) {
  if (result.find("oracle.passed") != nullptr) return {};
  if (!result.no_error_band.empty()) {
    return page.row("error band", "none: " + result.no_error_band);
  }
  Lines lines;
  for (const MetricBand& band : result.error_bands) {
    const double ranks = result.number("ranks").value_or(static_cast<double>(band.most_ranks));
    Lines row = page.row(label_text(band), fmt::format("{} ({}{})", band_text(band),
                                                       runs_text(band), scale_text(band, ranks)));
    std::move(row.begin(), row.end(), std::back_inserter(lines));
  }
  return lines;
}

}  // namespace shardsim
