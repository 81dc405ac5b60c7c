#pragma once

#include <cstddef>
#include <optional>
#include <vector>

// The distance of predictions from measurements. Every error is relative: predicted / measured - 1.
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

}  // namespace shardsim
