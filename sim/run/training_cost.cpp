#include "sim/run/training_cost.hpp"

#include <optional>

#include <fmt/format.h>

namespace shardsim {

namespace {

// The rate of tokens whose training is kept, if failures are given; else that of successive steps.
std::optional<double> effective_rate(const Result& result) {
  return result.number(metric::kGoodputEffectiveTokensPerS);
}

}  // namespace

CostEstimate cost_of(const Experiment& experiment, const Result& result) {
  const Scenario& scenario = experiment.scenario();
  constexpr double kSecondsPerDay = 86400.0;
  constexpr double kHoursPerDay = 24.0;
  CostEstimate cost;
  cost.tokens_total = scenario.training.tokens_total;
  cost.usd_per_gpu_hour = scenario.cost.usd_per_gpu_hour;
  const double rate =
      effective_rate(result).value_or(result.number(metric::kTokensPerS).value_or(0.0));
  if (cost.tokens_total <= 0.0 || rate <= 0.0) return cost;
  cost.days = cost.tokens_total / rate / kSecondsPerDay;
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
