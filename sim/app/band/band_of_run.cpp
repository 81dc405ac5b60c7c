#include "sim/app/band/band_of_run.hpp"

#include <array>
#include <optional>
#include <utility>

#include "sim/app/band/error_band.hpp"
#include "sim/app/band/measured_errors.hpp"

namespace shardsim {

namespace {

// A quantity of the tables and the metric that its band is about. Tables have memory as the
// allocator's or as the device's; what is on the device is what people ask for.
struct BandedMetric {
  const char* quantity;
  const char* metric;
};
constexpr std::array<BandedMetric, 2> kBanded{
    {{"step_time_s", "step_time_s"}, {"peak_memory_bytes", "memory.device_bytes.max"}}};

struct Basis {
  MeasuredRows rows;
  double widening = 1.0;
};

Basis basis_of(const char* quantity, const char* software) {
  Basis basis{comparable_rows(built_in_errors(), quantity, software)};
  basis.widening = widening_of(basis.rows);
  return basis;
}

// Made once: many runs of one process ask.
const Basis& built_in_basis(std::size_t banded, bool has_framework) {
  using Bases = std::array<Basis, kBanded.size()>;
  const auto all = [](const char* software) {
    return Bases{basis_of(kBanded[0].quantity, software), basis_of(kBanded[1].quantity, software)};
  };
  static const Bases kWithout = all("none");
  static const Bases kWith = all("any framework");
  return (has_framework ? kWith : kWithout).at(banded);
}

bool was_measured(const std::string& schedule) {
  return schedule == "none" || schedule == "1f1b" || schedule == "interleaved_1f1b";
}

MetricBand metric_band(const char* metric, double predicted, const ErrorBand& band,
                       const RunSetting& setting) {
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
          .most_ranks = band.most_ranks};
}

}  // namespace

RunSetting run_setting_of(const Scenario& scenario) {
  return {scenario.system.device.kernels, scenario.system.software, scenario.system.ranks};
}

std::string why_no_band(const Scenario& scenario) {
  const SystemSpec& system = scenario.system;
  const ParallelismSpec& parallelism = scenario.parallelism;
  const Precision precision = scenario.training.precision;
  if (scenario.execution.tensors == TensorMode::real) return "a run with numbers is no plan";
  if (system.kernel_model != "shapes") {
    return "no measured run is predicted with system.kernel_model " + system.kernel_model;
  }
  if (!system.network.is_nccl()) {
    return "no measured run is predicted with system.network_model " + system.network.model;
  }
  if (scenario.model.family == ModelFamily::mlp) return "no measured run has model.family mlp";
  if (scenario.model.num_experts > 0) return "no measured run has experts";
  if (parallelism.offloads()) return "no measured run offloads to the host";
  if (parallelism.changes_algorithm() || parallelism.is_elastic()) {
    return "no measured run trains with another data parallelism than synchronous";
  }
  if (!was_measured(parallelism.schedule)) {
    return "no measured run has parallelism.schedule " + parallelism.schedule;
  }
  if (precision != Precision::bf16 && precision != Precision::fp16) {
    return std::string("no measured run has training.precision ") + to_string(precision);
  }
  return {};
}

void add_error_bands(const Scenario& scenario, Result& result) {
  if (result.find("step_time_s") == nullptr) return;
  result.no_error_band = why_no_band(scenario);
  if (!result.no_error_band.empty()) return;
  const RunSetting setting = run_setting_of(scenario);
  for (std::size_t i = 0; i < kBanded.size(); ++i) {
    const Basis& basis = built_in_basis(i, setting.software != "none");
    const std::optional<double> predicted = result.number(kBanded.at(i).metric);
    const std::optional<ErrorBand> band = nearest_band(basis.rows, setting);
    if (!predicted || !band) continue;
    result.error_bands.push_back(
        metric_band(kBanded.at(i).metric, *predicted, widened(*band, basis.widening), setting));
  }
  if (result.error_bands.empty()) result.no_error_band = "the program was built without errors";
}

}  // namespace shardsim
