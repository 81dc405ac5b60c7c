#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "reports/result.hpp"
#include "sim/experiment/experiment.hpp"
#include "sim/run/band/error_groups.hpp"
#include "sim/run/band/measured_errors.hpp"

// The place of measurements around a prediction, derived from the measured runs that are most like
// it (docs/decisions/0038-error-band.md).
namespace shardsim {

/// The share of measurements that a band should hold.
inline constexpr double kBandShare = 0.8;
/// A group's band holds at most this share of the group's own weight.
inline constexpr double kMostOfGroup = 0.875;
/// With fewer tables of a quantity no interval can promise kBandShare of one more: bands then leave
/// out this share of the weight at either end.
inline constexpr std::size_t kManyTables = 8;
inline constexpr double kFewTablesTail = 0.03;

/// Ratios are measured / predicted.
struct ErrorBand {
  double low = 1.0;
  double centre = 1.0;  ///< 1 where tables left out are nearer to the model than to a centre.
  double high = 1.0;
  double bias = 0.0;  ///< Mean of predicted / measured - 1, each table with the same weight.
  std::size_t rows = 0;
  std::size_t tables = 0;
  std::size_t level = 0;  ///< The group's level in kGroupLevels.
  std::size_t rows_on_device = 0;
  std::size_t rows_with_software = 0;
  std::int64_t least_ranks = 0;
  std::int64_t most_ranks = 0;

  [[nodiscard]] bool holds(double ratio) const { return low <= ratio && ratio <= high; }
  [[nodiscard]] double width() const { return high / low; }
};

/// The band of the smallest group of a run that has enough of `rows`, which are all of a quantity,
/// and is no smaller than those of `least_level`. None without rows.
[[nodiscard]] std::optional<ErrorBand> group_band(const MeasuredRows& rows,
                                                  const RunSetting& setting,
                                                  std::size_t least_level = 0);

/// The share of the weight of so many tables that holds kBandShare of them and of one more, which
/// may be anywhere: kBandShare x (tables + 1) / tables, at most kMostOfGroup. REQUIRES: tables > 0.
[[nodiscard]] double share_of_group(std::size_t tables);

/// The median ratio, each table with the same weight, moved toward the model's 1 as if one more
/// table were there. 1 if centres of the other tables are farther from a table's rows, in the mean
/// of tables, than the model is; 1 for one table. REQUIRES: !rows.empty().
[[nodiscard]] double centre_of(const MeasuredRows& rows);

struct WeightedValue {
  double value = 0.0;
  double weight = 0.0;
};
/// The value below which `share` of the weight lies. A row counts at the middle of its own weight;
/// between two it is interpolated, and outside of them it is the first or the last. REQUIRES:
/// !values.empty(), weights above 0.
[[nodiscard]] double weighted_quantile(std::vector<WeightedValue> values, double share);

struct Interval {
  double low = 1.0;
  double high = 1.0;
};
/// The interval between two quantiles, `share` of the weight apart, whose ends have the smallest
/// ratio. REQUIRES: as weighted_quantile, values above 0.
[[nodiscard]] Interval narrowest_interval(std::vector<WeightedValue> values, double share);

// --- Bands of a run ----------------------------------------------------------------------------

[[nodiscard]] RunSetting run_setting_of(const Experiment& experiment);

/// Why predictions of this experiment cannot be compared with measurements, in one sentence without
/// a full stop. It names the field whose value no measured run has. Empty if they can.
[[nodiscard]] std::string why_no_band(const Experiment& experiment);

/// Adds bands around the step time and the memory on the device, or why there are none. No band is
/// added if no held-out share of its group says how reliable it is. Nothing is added if the result
/// has no step time.
void add_error_bands(const Experiment& experiment, const MeasuredErrors& known, Result& result);

/// The same from the errors that the program was built with.
void add_error_bands(const Experiment& experiment, Result& result);

}  // namespace shardsim
