#include "sim/run/whole_training.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "sim/kernel/time.hpp"

#include "scenarios/scenario.hpp"

namespace shardsim {

namespace {

// --- Poisson counts ----------------------------------------------------------------------------

constexpr std::int64_t kMostExact = 100;
constexpr double kTail = 0.05;         // On either side.
constexpr double kNormal = 1.6448536;  // The normal distribution's quantile of that.

// P(X <= count) of a Poisson X.
double at_most(std::int64_t count, double mean) {
  double term = std::exp(-mean);
  double sum = term;
  for (std::int64_t k = 1; k <= count; ++k) {
    term *= mean / static_cast<double>(k);
    sum += term;
  }
  return sum;
}

// The mean at which P(X <= count) is `share`: it falls with the mean.
double mean_where(std::int64_t count, double share) {
  double low = 0.0;
  double high = 3.0 * static_cast<double>(kMostExact);
  constexpr int kHalvings = 100;
  for (int i = 0; i < kHalvings; ++i) {
    const double mean = low + (high - low) / 2.0;
    (at_most(count, mean) > share ? low : high) = mean;
  }
  return low;
}

double cube(double value) { return value * value * value; }

// --- Experiments -------------------------------------------------------------------------------

constexpr double kBytesPerGb = 1e9;

double rate_per_s(double mtbf_hours, std::int64_t count) {
  return mtbf_hours > 0.0 ? static_cast<double>(count) / (mtbf_hours * kSecondsPerHour) : 0.0;
}

double real_metric(const std::vector<Metric>& metrics, const MetricRow& row) {
  const auto found = std::ranges::find(metrics, row.name, &Metric::name);
  return found == metrics.end() ? 0.0 : std::get<double>(found->value);
}

// The goodput if `factor` times as many failures come, at the same interval.
double useful_share(FailureModel model, double interval_s, double factor) {
  model.mtbf_s /= factor;
  return time_shares(model, interval_s).useful;
}

// --- Cost --------------------------------------------------------------------------------------

// The rate of tokens whose training is kept, if failures are given; else that of successive steps.
std::optional<double> effective_rate(const Result& result) {
  return result.number(metric::kGoodputEffectiveTokensPerS);
}

}  // namespace

// --- Closed forms ------------------------------------------------------------------------------

double young_interval_s(const FailureModel& model) {
  return std::sqrt(2.0 * model.checkpoint_s * model.mtbf_s);
}

double daly_interval_s(const FailureModel& model) {
  const double x = model.checkpoint_s / (2.0 * model.mtbf_s);
  if (x >= 1.0) return model.mtbf_s;
  return young_interval_s(model) * (1.0 + std::sqrt(x) / 3.0 + x / 9.0) - model.checkpoint_s;
}

double best_interval_s(const FailureModel& model) {
  // Written as expm1(y) = z / (1 - z) with z = T / M and y = (T + C) / M. Below the root the left
  // side is the larger one. Both are accurate if failures are rare.
  const double c = model.checkpoint_s / model.mtbf_s;
  double low = 0.0;
  double high = 1.0;
  constexpr int kBits = 200;  // More than a double has, down from 1.
  for (int i = 0; i < kBits; ++i) {
    const double z = low + (high - low) / 2.0;
    (std::expm1(z + c) * (1.0 - z) > z ? low : high) = z;
  }
  return low * model.mtbf_s;
}

double expected_segment_s(const FailureModel& model, double interval_s) {
  const double m = model.mtbf_s;
  return m * std::exp(model.restart_s / m) * std::expm1((interval_s + model.checkpoint_s) / m);
}

TimeShares time_shares(const FailureModel& model, double interval_s) {
  const double m = model.mtbf_s;
  const double segment_s = interval_s + model.checkpoint_s;
  // The expected time is that of attempts, M (e^y - 1), by e^(R/M): no term of these overflows.
  const double attempts = std::exp(-model.restart_s / m);
  const double kept = segment_s / m / std::expm1(segment_s / m);
  return {.useful = attempts * kept * interval_s / segment_s,
          .checkpoint = attempts * kept * model.checkpoint_s / segment_s,
          .rework = attempts * (1.0 - kept),
          .restart = -std::expm1(-model.restart_s / m)};
}

// --- Poisson counts ----------------------------------------------------------------------------

PoissonInterval byar_interval(double count) {
  const double more = count + 1.0;
  return {count * cube(1.0 - 1.0 / (9.0 * count) - kNormal / (3.0 * std::sqrt(count))),
          more * cube(1.0 - 1.0 / (9.0 * more) + kNormal / (3.0 * std::sqrt(more)))};
}

PoissonInterval poisson_interval(std::int64_t count) {
  if (count > kMostExact) return byar_interval(static_cast<double>(count));
  return {mean_where(count - 1, 1.0 - kTail), mean_where(count, kTail)};
}

// --- Experiments -------------------------------------------------------------------------------

// Elements that Muon updates.
std::int64_t num_in_matrices(const Experiment& experiment) {
  if (!experiment.options().sync.muon) return 0;
  std::int64_t sum = 0;
  for (const ParameterSpec& spec : experiment.plan().whole().parameters()) {
    if (spec.has_matrices()) sum += spec.shape.numel();
  }
  return sum;
}

std::int64_t checkpoint_bytes(const Experiment& experiment) {
  const std::int64_t weight = size_of(experiment.options().sync.weight_dtype);
  const std::int64_t all = all_parameters(experiment.scenario().model);
  const std::int64_t matrices = num_in_matrices(experiment);
  return all * weight + (all - matrices) * experiment.owned_bytes() +
         matrices * experiment.owned_bytes(true);
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

double checkpoint_interval_of(const Experiment& experiment) {
  const double given_s = experiment.scenario().faults.checkpoint_interval_s;
  return given_s > 0.0 ? given_s : daly_interval_s(failure_model_of(experiment));
}

void add_goodput(const Experiment& experiment, std::vector<Metric>& metrics) {
  const FaultSpec& faults = experiment.scenario().faults;
  if (!faults.has_failures()) return;
  const FailureModel model = failure_model_of(experiment);
  const double daly_s = daly_interval_s(model);
  const double interval_s = checkpoint_interval_of(experiment);
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

// --- Cost --------------------------------------------------------------------------------------

CostEstimate cost_of(const Experiment& experiment, const Result& result) {
  const Scenario& scenario = experiment.scenario();
  constexpr double kHoursPerDay = 24.0;
  CostEstimate cost;
  cost.tokens_total = scenario.training.tokens_total;
  cost.usd_per_gpu_hour = scenario.cost.usd_per_gpu_hour;
  const double rate =
      effective_rate(result).value_or(result.number(metric::kTokensPerS).value_or(0.0));
  if (cost.tokens_total <= 0.0 || rate <= 0.0) return cost;
  cost.days = training_days(cost.tokens_total, rate);
  cost.gpu_hours = cost.days * kHoursPerDay * static_cast<double>(scenario.system.ranks);
  cost.usd = cost.gpu_hours * cost.usd_per_gpu_hour;
  return cost;
}

void add_cost(const Experiment& experiment, Result& result) {
  const CostEstimate cost = cost_of(experiment, result);
  if (cost.days <= 0.0) return;
  result.metrics.push_back({metric::kCostDays.name, cost.days});
  result.metrics.push_back({metric::kCostGpuHours.name, cost.gpu_hours});
  if (cost.usd_per_gpu_hour > 0.0) result.metrics.push_back({metric::kCostUsd.name, cost.usd});
  result.assumptions.push_back(
      {fmt::format("{} tokens are trained on in steps that all take as long as this one: {}",
                   cost.tokens_total,
                   effective_rate(result)
                       ? "no evaluation; failures and checkpoints as goodput says"
                       : "no failures, no evaluation, no checkpoints"),
       "training.tokens_total, given in the scenario"});
  if (cost.usd_per_gpu_hour <= 0.0) return;
  result.assumptions.push_back({fmt::format("a GPU costs {} $ an hour", cost.usd_per_gpu_hour),
                                "cost.usd_per_gpu_hour, given in the scenario"});
}

}  // namespace shardsim
