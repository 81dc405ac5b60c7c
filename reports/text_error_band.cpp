#include <iterator>

#include <fmt/format.h>

#include "reports/band_words.hpp"
#include "reports/text_sections.hpp"

namespace shardsim {

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

}  // namespace shardsim
