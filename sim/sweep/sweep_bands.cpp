#include <algorithm>

#include <fmt/format.h>

#include "reports/units.hpp"
#include "reports/verdict_words.hpp"
#include "sim/sweep/sweep_summary.hpp"

namespace shardsim {

namespace {

const char* subject_of(const SweepBand& band) {
  return band.metric == metric::kStepTimeS.name ? "a step takes" : "the device holds";
}

std::string line_of_band(const SweepBand& band, std::size_t scored) {
  return fmt::format("  {} about {:.2f} times as much, {} {:.2f} to {:.2f} times: {} ({})\n",
                     subject_of(band), band.centre, band.held, band.low, band.high,
                     band.points == scored ? "all points" : count_of(band.points, "point"),
                     band.group);
}

bool mixes_groups(const std::vector<SweepBand>& bands) {
  return std::ranges::any_of(bands, [&](const SweepBand& band) {
    return band.metric == bands.front().metric && band.centre != bands.front().centre;
  });
}

}  // namespace

void add_bands(SweepFindings& findings, const PointRow& row) {
  for (const MetricBand& band : row.bands) {
    const MetricValue* const value = value_of(row.metrics, band.metric);
    const std::optional<double> simulated = value == nullptr ? std::nullopt : as_number(*value);
    if (!simulated || !(*simulated > 0.0)) continue;
    const auto same = std::ranges::find_if(findings.bands, [&](const SweepBand& known) {
      return known.metric == band.metric && known.group == band.group;
    });
    if (same != findings.bands.end()) {
      ++same->points;
      continue;
    }
    findings.bands.push_back({.metric = band.metric,
                              .group = band.group,
                              .held = band_held(band),
                              .low = band.low / *simulated,
                              .centre = band.centre / *simulated,
                              .high = band.high / *simulated,
                              .points = 1});
  }
}

std::string bands_text(const SweepFindings& findings) {
  if (findings.bands.empty()) return {};
  std::vector<SweepBand> bands = findings.bands;
  std::ranges::stable_sort(bands, {}, [](const SweepBand& band) {
    return band.metric == metric::kStepTimeS.name ? 0 : 1;
  });
  std::string text = "\nAll numbers are by the model. In measured runs like these\n";
  for (const SweepBand& band : bands) text += line_of_band(band, findings.scored.size());
  if (mixes_groups(bands)) {
    text += "  Points of different groups may come in another order than by the model.\n";
  }
  return text;
}

}  // namespace shardsim
