#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sim/kernel/diagnosis.hpp"
#include "sim/kernel/metric_table.hpp"

// The plain outcome of a run: what every writer (text, JSON, HTML, trace) gets to see. It holds no
// wall-clock or host data, so equal inputs give equal bytes.
namespace shardsim {

using MetricValue = std::variant<std::int64_t, double, bool, std::string>;

/// The name of a row of sim/kernel/metric_rows.hpp, and the value.
struct Metric {
  std::string name;
  MetricValue value;
};

/// Null if there is no such metric.
[[nodiscard]] inline const MetricValue* value_of(const std::vector<Metric>& metrics,
                                                 const std::string& name) {
  const auto metric = std::ranges::find(metrics, name, &Metric::name);
  return metric == metrics.end() ? nullptr : &metric->value;
}

/// As a number (bool as 0 or 1); nothing for text.
[[nodiscard]] inline std::optional<double> as_number(const MetricValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1.0 : 0.0;
  return std::nullopt;
}

/// A property of the run that was verified: "oracle", "conservation".
struct Check {
  std::string name;
  bool passed = false;
  std::string detail;  ///< The comparison, or the first difference.
};

/// One row of the scenario's `expect`, judged.
struct ExpectationResult {
  std::string metric;
  std::string op;  ///< "<=", ">=", "<", ">", "=="
  double expected = 0.0;
  double actual = 0.0;
  bool passed = false;
  int line = 0;  ///< In the scenario's file; 0 if a flag wrote it.
  int column = 0;
};

/// A number or simplification the result rests on, and where it comes from.
struct Assumption {
  std::string text;
  std::string source;  ///< "NVIDIA H100 datasheet", "assumed", ...

  /// Whether it has no published source.
  [[nodiscard]] bool is_assumed() const { return source.starts_with("assumed"); }
};

/// The range of a metric that holds most measured runs with a prediction like this run's.
struct MetricBand {
  std::string metric;   ///< "step_time_s"
  double low = 0.0;     ///< In the metric's unit.
  double centre = 0.0;  ///< Half of those runs lie below. The headline, where there is a band.
  double high = 0.0;
  double bias = 0.0;        ///< Mean of predicted / measured - 1 of those runs.
  std::int64_t runs = 0;    ///< Measured runs behind the band,
  std::int64_t tables = 0;  ///< and the published tables that list them.
  std::string group;        ///< Their group: "dense models on ampere".
  std::string too_few;      ///< "on blackwell": too few are so, too. Empty: enough are.
  std::string device;       ///< This run's, as system.device.kernels has it;
  std::int64_t runs_on_device = 0;
  std::string software;  ///< this run's framework, or "none",
  std::int64_t runs_with_software = 0;
  std::int64_t least_ranks = 0;
  std::int64_t most_ranks = 0;
  /// The share of the group's held-out measurements within such bands: the mean of tables.
  double held_out_share = 0.0;
};

struct Result {
  static constexpr int kSchemaVersion = 1;
  std::string scenario_json;  ///< The fully resolved scenario.
  std::vector<Metric> metrics;
  /// The measurements of a run on real processes. Names are those of metrics where both exist;
  /// `difference.NAME` is measured less simulated.
  std::vector<Metric> measured;
  /// The bands of all predictions that can be compared with measurements.
  std::vector<MetricBand> error_bands;
  std::string no_error_band;  ///< Why there are none; empty if there are, or nothing was predicted.
  std::vector<Check> checks;
  std::vector<ExpectationResult> expectations;
  std::vector<Assumption> assumptions;
  std::vector<std::string> warnings;
  std::optional<Diagnosis> diagnosis;
  int exit_code = 0;

  /// Null if there is no such metric.
  [[nodiscard]] const MetricValue* find(const std::string& name) const {
    return value_of(metrics, name);
  }
  [[nodiscard]] const MetricValue* find(const MetricRow& row) const { return find(row.name); }
  /// As a number (bool as 0 or 1); empty for text and unknown names.
  [[nodiscard]] std::optional<double> number(const std::string& name) const {
    const MetricValue* const value = find(name);
    return value == nullptr ? std::nullopt : as_number(*value);
  }
  [[nodiscard]] std::optional<double> number(const MetricRow& row) const {
    return number(row.name);
  }
  /// Null if the metric has none.
  [[nodiscard]] const MetricBand* band_of(const MetricRow& row) const {
    if (!no_error_band.empty()) return nullptr;
    const auto found = std::ranges::find(error_bands, row.name, &MetricBand::metric);
    return found == error_bands.end() ? nullptr : &*found;
  }
};

}  // namespace shardsim
