#include "sim/run/goodput/goodput_metrics.hpp"

#include <algorithm>

#include "scenarios/model_size.hpp"
#include "sim/run/goodput/poisson_interval.hpp"

namespace shardsim {

namespace {

constexpr double kSecondsPerHour = 3600.0;
constexpr double kBytesPerGb = 1e9;

double rate_per_s(double mtbf_hours, std::int64_t count) {
  return mtbf_hours > 0.0 ? static_cast<double>(count) / (mtbf_hours * kSecondsPerHour) : 0.0;
}

double real_metric(const std::vector<Metric>& metrics, const MetricRow& row) {
  const auto found = std::find_if(metrics.begin(), metrics.end(),
                                  [&row](const Metric& metric) { return metric.name == row.name; });
  return found == metrics.end() ? 0.0 : std::get<double>(found->value);
}

// The goodput if `factor` times as many failures come, at the same interval.
double useful_share(FailureModel model, double interval_s, double factor) {
  model.mtbf_s /= factor;
  return time_shares(model, interval_s).useful;
}

}  // namespace

std::int64_t checkpoint_bytes(const Experiment& experiment) {
  const std::int64_t weight = size_of(experiment.options().sync.weight_dtype);
  return num_parameters(experiment.scenario().model) * (weight + experiment.owned_bytes());
}

FailureModel failure_model_of(const Experiment& experiment) {
  const Scenario& scenario = experiment.scenario();
  const FaultSpec& faults = scenario.faults;
  const double rate = rate_per_s(faults.gpu_mtbf_hours, scenario.system.ranks) +
                      rate_per_s(faults.node_mtbf_hours, scenario.system.nodes);
  const double write_s = faults.checkpoint_write_s > 0.0
                             ? faults.checkpoint_write_s
                             : static_cast<double>(checkpoint_bytes(experiment)) /
                                   (faults.checkpoint_gb_per_s * kBytesPerGb);
  return {.mtbf_s = 1.0 / rate,
          .checkpoint_s = write_s,
          .restart_s = faults.detection_s + faults.restart_s};
}

void add_goodput(const Experiment& experiment, std::vector<Metric>& metrics) {
  const FaultSpec& faults = experiment.scenario().faults;
  if (!faults.has_failures()) return;
  const FailureModel model = failure_model_of(experiment);
  const double daly_s = daly_interval_s(model);
  const double interval_s =
      faults.checkpoint_interval_s > 0.0 ? faults.checkpoint_interval_s : daly_s;
  const TimeShares shares = time_shares(model, interval_s);
  metrics.push_back({metric::kGoodputFraction.name, shares.useful});
  if (faults.observed_failures > 0) {
    const PoissonInterval seen = poisson_interval(faults.observed_failures);
    const auto count = static_cast<double>(faults.observed_failures);
    metrics.push_back(
        {metric::kGoodputFractionLow.name, useful_share(model, interval_s, seen.high / count)});
    metrics.push_back(
        {metric::kGoodputFractionHigh.name, useful_share(model, interval_s, seen.low / count)});
  }
  const double tokens_per_s = real_metric(metrics, metric::kTokensPerS);
  metrics.push_back({metric::kGoodputEffectiveTokensPerS.name, tokens_per_s * shares.useful});
  metrics.push_back({metric::kGoodputMtbfS.name, model.mtbf_s});
  metrics.push_back({metric::kGoodputCheckpointIntervalS.name, interval_s});
  metrics.push_back({metric::kGoodputCheckpointWriteS.name, model.checkpoint_s});
  metrics.push_back({metric::kGoodputYoungS.name, young_interval_s(model)});
  metrics.push_back({metric::kGoodputDalyS.name, daly_s});
  metrics.push_back({metric::kGoodputBestS.name, best_interval_s(model)});
  metrics.push_back({metric::kGoodputLostShareCheckpoint.name, shares.checkpoint});
  metrics.push_back({metric::kGoodputLostShareRework.name, shares.rework});
  metrics.push_back({metric::kGoodputLostShareRestart.name, shares.restart});
}

}  // namespace shardsim
