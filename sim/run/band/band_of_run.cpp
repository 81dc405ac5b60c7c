#include "sim/run/band/band_of_run.hpp"

#include <utility>

#include "sim/run/band/why_no_band.hpp"

namespace shardsim {

namespace {

// A quantity of the tables and the metric that its band belongs to. Tables give memory as the
// allocator's or as the device's; users ask for the device's.
struct BandedMetric {
  const char* quantity;
  const char* metric;
};
constexpr std::array<BandedMetric, kNumBanded> kBanded{
    {{"step_time_s", metric::kStepTimeS.name},
     {"peak_memory_bytes", metric::kMemoryDeviceBytesMax.name}}};

BandBasis basis_of(const MeasuredErrors& known, const char* quantity, const char* software) {
  BandBasis basis{comparable_rows(known.errors, quantity, software)};
  basis.widening = widening_of(basis.rows);
  basis.held_out_share = held_out_share(known, quantity, software);
  return basis;
}

MetricBand metric_band(const char* metric, double predicted, const ErrorBand& band,
                       const RunSetting& setting, double held_out_share) {
  return {.metric = metric,
          .low = predicted * band.low,
          .high = predicted * band.high,
          .runs = static_cast<std::int64_t>(band.rows),
          .tables = static_cast<std::int64_t>(band.tables),
          .device = setting.device,
          .runs_on_device = static_cast<std::int64_t>(band.rows_on_device),
          .software = setting.software,
          .runs_with_software = static_cast<std::int64_t>(band.rows_with_software),
          .least_ranks = band.least_ranks,
          .most_ranks = band.most_ranks,
          .held_out_share = held_out_share};
}

}  // namespace

RunSetting run_setting_of(const Experiment& experiment) {
  const Scenario& scenario = experiment.scenario();
  return {scenario.system.device.kernels, scenario.system.software, scenario.system.ranks};
}

BandBases band_bases_of(const MeasuredErrors& known) {
  BandBases bases;
  for (std::size_t i = 0; i < kNumBanded; ++i) {
    const char* quantity = kBanded.at(i).quantity;
    bases.with_framework.at(i) = basis_of(known, quantity, "any framework");
    bases.without.at(i) = basis_of(known, quantity, "none");
  }
  return bases;
}

void add_error_bands(const Experiment& experiment, const BandBases& bases, Result& result) {
  if (result.find(metric::kStepTimeS) == nullptr) return;
  result.no_error_band = why_no_band(experiment);
  if (!result.no_error_band.empty()) return;
  const RunSetting setting = run_setting_of(experiment);
  for (std::size_t i = 0; i < kNumBanded; ++i) {
    const BandBasis& basis =
        (setting.software == "none" ? bases.without : bases.with_framework).at(i);
    const std::optional<double> predicted = result.number(kBanded.at(i).metric);
    const std::optional<ErrorBand> band = nearest_band(basis.rows, setting);
    if (!predicted || !band || !basis.held_out_share) continue;
    result.error_bands.push_back(metric_band(kBanded.at(i).metric, *predicted,
                                             widened(*band, basis.widening), setting,
                                             *basis.held_out_share));
  }
  if (result.error_bands.empty()) result.no_error_band = "the program was built without errors";
}

void add_error_bands(const Experiment& experiment, Result& result) {
  // Made once, because many runs of one process ask for it.
  static const BandBases kBuiltIn = band_bases_of(built_in_measured_errors());
  add_error_bands(experiment, kBuiltIn, result);
}

}  // namespace shardsim
