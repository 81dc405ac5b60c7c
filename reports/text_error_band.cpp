#include <iterator>

#include <fmt/format.h>

#include "reports/text_sections.hpp"
#include "reports/units.hpp"

namespace shardsim {

namespace {

// "on a100-sxm", "none on a100-sxm", "16 on a100-sxm".
std::string share_text(std::int64_t part, std::int64_t whole, const std::string& words) {
  if (part == whole) return words;
  return (part == 0 ? "none" : format_count(part)) + " " + words;
}

std::string runs_text(const MetricBand& band) {
  std::string text = share_text(band.runs_on_device, band.runs, "on " + band.device);
  if (band.software != "none") {
    const std::string software =
        share_text(band.runs_with_software, band.runs, "with " + band.software);
    text += (band.runs_with_software == band.runs ? " " : ", ") + software;
  }
  return text;
}

std::string range_text(const MetricBand& band) {
  const bool is_time = band.metric == "step_time_s";
  const auto format = is_time ? format_seconds : format_memory;
  return fmt::format("{} {} to {}", is_time ? "step" : "on device", format(band.low),
                     format(band.high));
}

}  // namespace

Lines error_band_section(const Result& result, const Page& page) {
  if (result.find("oracle.passed") != nullptr) return {};
  if (!result.no_error_band.empty()) {
    return page.row("error band", "none: " + result.no_error_band);
  }
  Lines lines;
  for (const MetricBand& band : result.error_bands) {
    const bool is_first = lines.empty();
    Lines row = page.row(
        is_first ? "error band" : "",
        fmt::format("{}{} ({} runs, {}, {} to {} GPUs)", is_first ? "8 of 10 measured: " : "",
                    range_text(band), format_count(band.runs), runs_text(band),
                    format_count(band.least_ranks), format_count(band.most_ranks)));
    std::move(row.begin(), row.end(), std::back_inserter(lines));
  }
  return lines;
}

}  // namespace shardsim
