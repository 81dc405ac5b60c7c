#include "reports/band_words.hpp"

#include <cmath>

#include <fmt/format.h>

#include "reports/units.hpp"

namespace shardsim {

namespace {

// ", 16 on h100-sxm"; a property of all runs needs no number.
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

}  // namespace

std::string band_range(const MetricBand& band) {
  return band.metric == metric::kStepTimeS.name
             ? range_of(format_seconds(band.low), format_seconds(band.high))
             : range_of(format_memory(band.low), format_memory(band.high));
}

std::string band_evidence(const MetricBand& band, const Result& result) {
  const double ranks = result.number(metric::kRanks).value_or(static_cast<double>(band.most_ranks));
  return runs_text(band) + scale_text(band, ranks);
}

std::string band_held(const MetricBand& band) {
  return fmt::format("{} of 10 runs", std::lround(10.0 * band.held_out_share));
}

}  // namespace shardsim
