#include <algorithm>

#include <fmt/format.h>

#include "reports/verdict_words.hpp"
#include "sim/diff/comparison.hpp"

namespace shardsim {

namespace {

constexpr std::size_t kPageWidth = 100;

const MetricBand* band_of_metric(const RunSide& side, const std::string& metric) {
  const auto found = std::ranges::find(side.bands, metric, &MetricBand::metric);
  return found == side.bands.end() ? nullptr : &*found;
}

// "A  step about 1.66 s, 80 % of runs 1.53 to 1.85 s (dense models); by the model 1.57 s", in two
// lines where one is too narrow.
std::string band_line(const RunSide& side, const MetricBand& band) {
  const std::optional<double> simulated = side.metric(band.metric);
  if (!simulated) return {};
  const bool is_step = band.metric == metric::kStepTimeS.name;
  const std::string first =
      fmt::format("{}  {} {}, {} {}{};", side.letter, is_step ? "step" : "on device",
                  band_centre(band), band_held(band), band_range(band),
                  band.group.empty() ? "" : fmt::format(" ({})", band.group));
  const std::string second = by_the_model(band, *simulated);
  const bool fits = first.size() + 1 + second.size() <= kPageWidth;
  return first + (fits ? " " : "\n   ") + second + "\n";
}

// Centres of different groups move the two sides by different factors.
bool has_two_groups(const RunComparison& comparison) {
  const MetricBand* const a = band_of_metric(comparison.a, metric::kStepTimeS.name);
  const MetricBand* const b = band_of_metric(comparison.b, metric::kStepTimeS.name);
  return a != nullptr && b != nullptr && a->group != b->group;
}

}  // namespace

std::string sides_bands_text(const RunComparison& comparison) {
  std::string text;
  for (const RunSide* const side : {&comparison.a, &comparison.b}) {
    for (const MetricBand& band : side->bands) text += band_line(*side, band);
  }
  if (text.empty()) return text;
  if (has_two_groups(comparison)) {
    text +=
        fmt::format("A and {} have bands of different groups of runs: compare their ranges, too.\n",
                    comparison.b.letter);
  }
  return "measured runs like these; the tables below are by the model\n" + text + "\n";
}

}  // namespace shardsim
