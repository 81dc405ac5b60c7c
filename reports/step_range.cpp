#include "reports/step_range.hpp"

#include "sim/kernel/metric_rows.hpp"

namespace shardsim {

BandRange range_with_step(const Result& result, double by_the_model) {
  const MetricBand* const band = result.band_of(metric::kStepTimeS);
  if (band == nullptr) return {by_the_model, by_the_model, by_the_model, by_the_model};
  const double per_second = by_the_model / result.number(metric::kStepTimeS).value();
  return {per_second * band->low, per_second * band->centre, per_second * band->high, by_the_model};
}

BandRange range_against_step(const Result& result, double by_the_model) {
  const BandRange inverse = range_with_step(result, 1.0 / by_the_model);
  return {1.0 / inverse.high, 1.0 / inverse.centre, 1.0 / inverse.low, by_the_model};
}

}  // namespace shardsim
