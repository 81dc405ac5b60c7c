#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/accuracy/error_statistics.hpp"
#include "sim/accuracy/table_mapping.hpp"
#include "sim/run/band/measured_errors.hpp"

// Predictions for the rows of a table, beside the measurements.
namespace shardsim {

struct ValidatedRow {
  int line = 0;         ///< Line of the table's file.
  std::string label;    ///< "gpus 8, tp 2".
  std::string source;   ///< The source of the measurement.
  std::string refused;  ///< Why it cannot be represented; empty if it can.
  std::string apart;    ///< Why it is not in the headline; empty if it is.
  bool fits = true;     ///< Whether the device is predicted to hold it: the verdict of a plan.
  /// Whether the tensors alone fit. The measured plan ran, so any other excess is an error of the
  /// prediction, which error bands must show.
  bool tensors_fit = true;
  RunSetting setting;  ///< Its scenario's setting; empty if it was refused.
  std::array<std::optional<PredictedAndMeasured>, kNumQuantities> quantities;
  /// The same, predicted with system.software "none"; only if that was requested.
  std::array<std::optional<PredictedAndMeasured>, kNumQuantities> without_framework;
};

struct ValidatedTable {
  std::string name;
  std::string title;
  std::string trust;
  std::string assuming;
  std::string file;  ///< The file of the measurements.
  std::size_t rows_in_file = 0;
  std::int64_t stride = 1;  ///< The stride of the rows that were run.
  std::vector<ValidatedRow> rows;
};

/// The scenario of a row as overrides of the mapping's scenario, or why there is none.
struct RowScenario {
  std::vector<std::string> overrides;  ///< "a.b=value"; the later of two for one field counts.
  std::string refused;
  std::string apart;
};
[[nodiscard]] RowScenario row_scenario_of(const TableMapping& mapping, const MeasurementRow& row);

/// Runs every `stride`-th row, from the first. A row that the mapping, the loader or a limit of the
/// simulator refuses is kept, with the reason. Throws ScenarioError for tables and mappings that
/// are wrong (see convert; E0925: a measurement that is not above 0, or "confirmed" that is neither
/// yes nor no). `on_progress` is called now and then. `twice`: each row is also predicted without
/// a framework.
[[nodiscard]] ValidatedTable validate_table(const TableMapping& mapping, std::int64_t stride,
                                            const std::function<void()>& on_progress,
                                            bool twice = false);

/// Indices of the rows with this quantity that are in the headline, or of those that are apart.
[[nodiscard]] std::vector<std::size_t> rows_with(const ValidatedTable& table, std::size_t quantity,
                                                 bool headline);

/// The errors of those rows; none if there are none. `worst` is an index of table.rows.
[[nodiscard]] std::optional<ErrorStatistics> statistics_of(const ValidatedTable& table,
                                                           std::size_t quantity, bool headline);

/// The errors of all tables' headline rows. `worst` counts through all of them in their order.
[[nodiscard]] std::optional<ErrorStatistics> overall_statistics(
    const std::vector<ValidatedTable>& tables, std::size_t quantity);

/// The reasons why rows were refused, each with its rows' lines, in the order of first appearance.
struct RefusedRows {
  std::string reason;
  std::vector<int> lines;
};
[[nodiscard]] std::vector<RefusedRows> refused_rows(const ValidatedTable& table);

}  // namespace shardsim
