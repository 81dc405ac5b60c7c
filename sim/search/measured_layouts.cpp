#include <optional>

#include <fmt/format.h>

#include "reports/verdict_words.hpp"
#include "sim/experiment/experiment.hpp"
#include "sim/run/band/error_band.hpp"
#include "sim/run/whole_training.hpp"
#include "sim/search/search_report.hpp"

namespace shardsim {

namespace {

// " Measured runs like #1 take about 3.00 s a step, 80 % of runs ..."; empty without a band.
std::string sentence_of(const Result& result, const MetricRow& metric, const char* before,
                        const char* after) {
  const MetricBand* const band = result.band_of(metric);
  const std::optional<double> simulated = result.number(metric);
  if (band == nullptr || !simulated) return {};
  return fmt::format(" Measured runs like #1 {} {} {}, {} {} ({}); {}.", before, band_centre(*band),
                     after, band_held(*band), band_range(*band), band_evidence(*band, result),
                     by_the_model(*band, *simulated));
}

}  // namespace

Result measured_like(const Experiment& experiment, const SimulatedPoint& point) {
  Result result;
  result.metrics = {{metric::kStepTimeS.name, point.step_time_s},
                    {metric::kMemoryDeviceBytesMax.name, point.device_bytes},
                    {metric::kTokensPerS.name, point.tokens_per_s},
                    {metric::kRanks.name, experiment.scenario().system.ranks}};
  add_goodput(experiment, result.metrics);
  add_cost(experiment, result);
  add_error_bands(experiment, result);
  return result;
}

std::string measured_words(const SearchReport& report) {
  if (report.measured.empty()) return {};
  const Result& first = report.measured.front();
  std::string training;
  if (!report.training.empty()) {
    training = fmt::format(
        " With #1, {}; {}.", training_words(report.training.front(), report.tokens),
        downtime_words(report.training.front().goodput, report.training.front().goodput));
  }
  const std::string words =
      sentence_of(first, metric::kStepTimeS, "take", "a step") +
      sentence_of(first, metric::kMemoryDeviceBytesMax, "use", "on the device");
  // Each sentence begins with a blank.
  if (!words.empty()) return (words + training).substr(1);
  return "There is no error band: " + first.no_error_band + "." + training;
}

}  // namespace shardsim
