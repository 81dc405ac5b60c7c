#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "reports/result.hpp"
#include "sim/experiment/experiment.hpp"
#include "sim/run/band/measured_errors.hpp"

// The place of measurements around a prediction, derived from the measured runs that are most like
// it (docs/decisions/0038-error-band.md).
namespace shardsim {

/// Rows of the first of these kinds that has enough of them are taken.
enum class Likeness { device_and_software, device_or_software, any };

/// A kind suffices from this many rows and this many tables on. From each table, this many rows
/// with the nearest ranks are taken, and all that are as near as the last of them.
inline constexpr std::size_t kEnoughRows = 20;
inline constexpr std::size_t kEnoughTables = 2;
/// The share of measurements that a band should hold. The rest is split between below and above.
inline constexpr double kBandShare = 0.8;
inline constexpr double kBandTail = 0.1;

struct ErrorBand {
  double low = 1.0;     ///< Measured / predicted.
  double centre = 1.0;  ///< The median.
  double high = 1.0;
  double bias = 0.0;  ///< Mean of predicted / measured - 1.
  std::size_t rows = 0;
  std::size_t tables = 0;
  Likeness likeness = Likeness::any;
  std::size_t rows_on_device = 0;
  std::size_t rows_with_software = 0;
  std::int64_t least_ranks = 0;
  std::int64_t most_ranks = 0;
};

using MeasuredRows = std::vector<const MeasuredError*>;

/// The rows of one quantity that were predicted as a run with this software is: under a framework,
/// or without one. They point into `all`.
[[nodiscard]] MeasuredRows comparable_rows(const std::vector<MeasuredError>& all,
                                           const std::string& quantity,
                                           const std::string& software);

/// The band that the nearest rows give, each table with the same weight: from their ratios' 10th
/// to their 90th percentile, with their median. None without rows.
[[nodiscard]] std::optional<ErrorBand> nearest_band(const MeasuredRows& rows,
                                                    const RunSetting& setting);

/// The smallest factor, at least 1, that widens bands at both ends so that they hold 8 of 10 rows.
/// The rows are those of a table that the bands were not made from, in the mean of all tables. 1
/// for fewer than two tables.
[[nodiscard]] double widening_of(const MeasuredRows& rows);

/// `band` with its low end divided, and its high end multiplied, by `factor`.
[[nodiscard]] ErrorBand widened(ErrorBand band, double factor);

struct WeightedValue {
  double value = 0.0;
  double weight = 0.0;
};
/// The value below which `share` of the weight lies. A row counts at the middle of its own weight;
/// between two it is interpolated, and outside of them it is the first or the last. REQUIRES:
/// !values.empty(), weights above 0.
[[nodiscard]] double weighted_quantile(std::vector<WeightedValue> values, double share);

/// The rows of all tables but one.
[[nodiscard]] MeasuredRows without_table(const MeasuredRows& rows, const std::string& table);

/// The tables' names, each once, sorted.
[[nodiscard]] std::vector<std::string> tables_of(const MeasuredRows& rows);

/// The number of measurements inside the bands around their predictions.
struct BandCoverage {
  struct Table {
    std::string name;
    std::size_t rows = 0;
    std::size_t inside = 0;
    /// With bands and a widening made from all other tables only.
    std::size_t inside_without = 0;
    /// Sums over rows of |centre x predicted / measured - 1|, with such bands, and of the same
    /// without a centre.
    double centre_error_without = 0.0;
    double model_error = 0.0;
  };
  std::vector<Table> tables;
  double widening = 1.0;  ///< The widening of bands made from all tables.

  [[nodiscard]] std::size_t rows() const { return sum_of(&Table::rows); }
  [[nodiscard]] std::size_t inside() const { return sum_of(&Table::inside); }
  [[nodiscard]] std::size_t inside_without() const { return sum_of(&Table::inside_without); }
  /// The mean over tables of the share of their rows inside bands made without them.
  [[nodiscard]] double mean_share_without() const;
  /// The mean over tables of their rows' mean error of such bands' centres, and of the model.
  [[nodiscard]] double mean_centre_error_without() const {
    return mean_of(&Table::centre_error_without);
  }
  [[nodiscard]] double mean_model_error() const { return mean_of(&Table::model_error); }

 private:
  [[nodiscard]] std::size_t sum_of(std::size_t Table::*count) const;
  [[nodiscard]] double mean_of(double Table::*sum) const;
};

/// The coverage of the rows of one quantity, with a framework or without one. It has no tables if
/// there are fewer than two.
[[nodiscard]] BandCoverage band_coverage(const std::vector<MeasuredError>& all,
                                         const std::string& quantity, const std::string& software);

// --- Bands of a run ----------------------------------------------------------------------------

[[nodiscard]] RunSetting run_setting_of(const Experiment& experiment);

/// Why predictions of this experiment cannot be compared with measurements, in one sentence without
/// a full stop. It names the field whose value no measured run has. Empty if they can.
[[nodiscard]] std::string why_no_band(const Experiment& experiment);

/// Adds bands around the step time and the memory on the device, or why there are none. No band is
/// added if no held-out share says how reliable it is. Nothing is added if the result has no step
/// time.
void add_error_bands(const Experiment& experiment, const MeasuredErrors& known, Result& result);

/// The same from the errors that the program was built with.
void add_error_bands(const Experiment& experiment, Result& result);

}  // namespace shardsim
