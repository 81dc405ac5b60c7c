#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/accuracy/row_traits.hpp"
#include "sim/accuracy/table_mapping.hpp"
#include "sim/run/band/measured_errors.hpp"

// Predictions for the rows of a table beside the measurements, the distance between both, and what
// `shardsim validate` makes of it. Every error is relative: predicted / measured - 1.
namespace shardsim {

/// Two positive numbers of one unit.
struct PredictedAndMeasured {
  double predicted = 0.0;
  double measured = 0.0;

  [[nodiscard]] double error() const { return predicted / measured - 1.0; }
};

struct ErrorStatistics {
  std::size_t rows = 0;
  double mean_absolute = 0.0;
  double median_absolute = 0.0;
  double percentile_90_absolute = 0.0;
  double bias = 0.0;  ///< Mean of the errors with their signs: above 0, predictions are too large.
  std::size_t worst = 0;  ///< Index of the row with the largest absolute error; ties: the first.
  /// Spearman's: correlation of the ranks, equal values sharing the mean of theirs. None for fewer
  /// than two rows, or if all predictions or all measurements are equal.
  std::optional<double> rank_correlation;
};

/// REQUIRES: !rows.empty(), and measured > 0 in each.
[[nodiscard]] ErrorStatistics error_statistics(const std::vector<PredictedAndMeasured>& rows);

/// The value below which `share` of the sorted values lie, interpolated between neighbours: at
/// place share x (n - 1), counted from 0. REQUIRES: !values.empty(), 0 <= share <= 1.
[[nodiscard]] double quantile(std::vector<double> values, double share);

[[nodiscard]] std::optional<double> rank_correlation(const std::vector<PredictedAndMeasured>& rows);

/// A step's time if all that it computes ran at the peak of its products, and its pipeline paused
/// as a textbook has it: for one_constant.hpp.
struct TimeAtPeak {
  double seconds = 0.0;
  std::string generation;  ///< The GPU's architecture.
};

struct ValidatedRow {
  int line = 0;       ///< Line of the table's file.
  std::string label;  ///< "gpus 8, tp 2".
  /// "precision fp8": one for each column that the mapping gives figures `by`.
  std::vector<std::string> groups;
  std::string source;   ///< The source of the measurement.
  std::string refused;  ///< Why it cannot be represented; empty if it can.
  /// If it is refused: what the table would have to say of it, each once. Empty if it is refused
  /// for another reason, too.
  std::vector<std::string> needs;
  std::string apart;  ///< Why it is not in the headline; empty if it is.
  bool fits = true;   ///< Whether the device is predicted to hold it: the verdict of a plan.
  /// Whether the tensors alone fit. The measured plan ran, so any other excess is an error of the
  /// prediction, which error bands must show.
  bool tensors_fit = true;
  RunSetting setting;                 ///< Its scenario's setting; empty if it was refused.
  RowTraits traits;                   ///< Likewise.
  std::optional<StepParts> parts;     ///< None if it was refused.
  std::optional<TimeAtPeak> at_peak;  ///< None if the device has no known architecture.
  /// Whether a plan like it has a band (why_no_band): if not, no band is made of its errors.
  bool has_band = true;
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
  std::vector<std::string> needs;  ///< As ValidatedRow::needs.
  bool has_obstacle = false;       ///< Whether a reason of `refused` is not among the needs.
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

/// The groups of a table's rows, column by column, in the order of first appearance.
[[nodiscard]] std::vector<std::string> groups_of(const ValidatedTable& table);

/// Indices of the rows with this quantity that are in the headline, or of those that are apart.
/// `group`: only rows of this group; empty: all.
[[nodiscard]] std::vector<std::size_t> rows_with(const ValidatedTable& table, std::size_t quantity,
                                                 bool headline, const std::string& group = {});

/// The errors of one quantity in the rows of rows_with().
struct QuantityFigures {
  std::size_t quantity = 0;
  ErrorStatistics errors;
  std::string worst_table;  ///< The name of the worst row's table.
  int worst_line = 0;       ///< Its line there.
  std::string worst_row;    ///< "line 5: gpus 8, tp 2 (+31.0 %)".
};
/// The figures of these tables together; none if no row is such.
[[nodiscard]] std::optional<QuantityFigures> figures_of(std::span<const ValidatedTable> tables,
                                                        std::size_t quantity, bool headline,
                                                        const std::string& group = {});

/// The reasons why rows were refused, each with its rows' lines, in the order of first appearance.
struct RefusedRows {
  std::string reason;
  std::vector<int> lines;
};
[[nodiscard]] std::vector<RefusedRows> refused_rows(const ValidatedTable& table);

/// The errors of the headline's rows that fit their device and may have a band, as predicted and,
/// if available, also without a framework. Errors are rounded to 1e-4, as in the file. A row with
/// the prediction and measurement of an earlier row of the table is the same run, and is left out.
[[nodiscard]] std::vector<MeasuredError> measured_errors_of(
    const std::vector<ValidatedTable>& tables);

/// The first line in which two texts differ, as a sentence; empty if they are equal.
[[nodiscard]] std::string first_difference(const std::string& in_file, const std::string& today);

[[nodiscard]] std::string validation_text(const std::vector<ValidatedTable>& tables);

/// One object: per table its figures, every row with its prediction and measurement, and every
/// refused row with the reason; and the figures over all tables.
[[nodiscard]] std::string validation_json(const std::vector<ValidatedTable>& tables);

/// One page without external parts: per table predicted against measured on logarithmic axes, with
/// the diagonal and lines at +-10 %; the figures; and the rows that are apart or refused.
[[nodiscard]] std::string validation_html(const std::vector<ValidatedTable>& tables);

/// "2-4, 7": ascending whole numbers, runs of them shortened.
[[nodiscard]] std::string runs_text(const std::vector<int>& numbers);

}  // namespace shardsim
