#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/accuracy/validated_table.hpp"

namespace shardsim {

namespace {

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Ranks from 1; equal values share the mean of the places they take.
std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first;
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    const double shared = static_cast<double>(first + 1 + end) / 2.0;
    for (; first < end; ++first) ranks[order[first]] = shared;
  }
  return ranks;
}

}  // namespace

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  if (below + 1 >= values.size()) return values.back();
  return values[below] + (place - static_cast<double>(below)) * (values[below + 1] - values[below]);
}

std::optional<double> rank_correlation(const std::vector<PredictedAndMeasured>& rows) {
  std::vector<double> predicted;
  std::vector<double> measured;
  for (const PredictedAndMeasured& row : rows) {
    predicted.push_back(row.predicted);
    measured.push_back(row.measured);
  }
  if (rows.size() < 2) return std::nullopt;
  const std::vector<double> x = ranks_of(predicted);
  const std::vector<double> y = ranks_of(measured);
  const double mean = static_cast<double>(rows.size() + 1) / 2.0;
  double xx = 0.0;
  double yy = 0.0;
  double xy = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
    xy += (x[i] - mean) * (y[i] - mean);
  }
  if (xx == 0.0 || yy == 0.0) return std::nullopt;
  return xy / std::sqrt(xx * yy);
}

ErrorStatistics error_statistics(const std::vector<PredictedAndMeasured>& rows) {
  std::vector<double> errors;
  std::vector<double> absolute;
  for (const PredictedAndMeasured& row : rows) {
    errors.push_back(row.error());
    absolute.push_back(std::abs(errors.back()));
  }
  ErrorStatistics statistics;
  statistics.rows = rows.size();
  statistics.mean_absolute = mean_of(absolute);
  statistics.median_absolute = quantile(absolute, 0.5);
  statistics.percentile_90_absolute = quantile(absolute, 0.9);
  statistics.bias = mean_of(errors);
  statistics.worst = static_cast<std::size_t>(std::max_element(absolute.begin(), absolute.end()) -
                                              absolute.begin());
  statistics.rank_correlation = rank_correlation(rows);
  return statistics;
}

}  // namespace shardsim
