#include "sim/search/simulate_layout.hpp"

#include "sim/kernel/error.hpp"
#include "sim/kernel/metric_table.hpp"

#include "scenarios/scenario_error.hpp"
#include "sim/run/device_memory.hpp"
#include "sim/run/run.hpp"

namespace shardsim {

namespace {

void read_result(const Result& result, SimulatedPoint& point) {
  const auto whole = [&result](const MetricRow& row) {
    return static_cast<std::int64_t>(result.number(row).value_or(0.0));
  };
  point.fits = result.exit_code != static_cast<int>(ExitCode::does_not_fit);
  for (const auto& [row, value] : kPointMetrics) point.*value = result.number(row).value_or(0.0);
  point.peak_bytes = whole(metric::kMemoryPeakBytesMax);
  point.device_bytes = whole(metric::kMemoryDeviceBytesMax);
  for (std::size_t i = 0; i < kNumMemoryCategories; ++i) {
    point.category_bytes.at(i) = whole(*kMemoryMetrics.at(i));
  }
}

}  // namespace

Simulation simulate_layout(const SearchBase& base, std::size_t index, const Candidate& candidate,
                           const std::function<bool()>& is_over) {
  SimulatedPoint point;
  point.index = index;
  point.candidate = candidate;
  RunHooks hooks;
  if (is_over) {
    hooks.on_progress = [&is_over] {
      if (is_over()) throw SimulationAbandoned();
    };
  }
  try {
    const Experiment experiment = compile(scenario_of(base, candidate));
    const Result result = run_experiment(experiment, hooks).result;
    if (result.diagnosis) return {{}, result.diagnosis->code + ": " + result.diagnosis->summary};
    read_result(result, point);
    point.is_tight = point.fits && !leaves_margin(experiment, point.device_bytes);
    return {point, {}};
  } catch (const ScenarioError& error) {
    // The reader checks more than divisibility. A limit does not make a layout illegal.
    if (error.exit_code() == ExitCode::bad_usage) return {};
    return {{}, error.code() + ": " + error.what()};
  } catch (const Error& error) {
    if (error.exit_code() == ExitCode::internal) throw;
    return {{}, error.code() + ": " + error.what()};
  }
}

}  // namespace shardsim
