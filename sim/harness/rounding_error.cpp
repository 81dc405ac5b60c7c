#include "sim/harness/rounding_error.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace shardsim {

namespace {

constexpr double kDeviations = 6.0;
constexpr double kExponent = kDeviations * kDeviations / 2.0;
constexpr double kUniform = 3.0;  // The square of a bound by the variance.
constexpr double kDeviationsOfLargest = 9.0;

}  // namespace

double most_of_errors(double all, double squares) {
  return std::min(all, kDeviations * std::sqrt(squares / kUniform));
}

double most_of_mean_square(const std::vector<double>& variances) {
  if (variances.empty()) return 0.0;
  double sum = 0.0;
  double squares = 0.0;
  double most = 0.0;
  for (const double variance : variances) {
    sum += variance;
    squares += variance * variance;
    most = std::max(most, variance);
  }
  const double square = sum + 2.0 * std::sqrt(kExponent * squares) + 2.0 * kExponent * most;
  return std::sqrt(square / static_cast<double>(variances.size()));
}

double largest(const std::vector<double>& values) {
  double most = 0.0;
  for (const double value : values) most = std::max(most, std::fabs(value));
  return most;
}

double scale_of(const std::vector<double>& values, double largest_of_kind) {
  return std::max(largest(values), kNoiseFloor * largest_of_kind);
}

double largest_error(const std::vector<double>& values, const std::vector<double>& exact) {
  double largest = 0.0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double error = std::fabs(values[i] - exact[i]);
    if (std::isfinite(error)) largest = std::max(largest, error);
  }
  return largest;
}

double root_mean_square_error(const std::vector<double>& values, const std::vector<double>& exact) {
  double squares = 0.0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double error = values[i] - exact[i];
    if (std::isfinite(error)) squares += error * error;
  }
  return exact.empty() ? 0.0 : std::sqrt(squares / static_cast<double>(exact.size()));
}

double DrawnErrors::bound() const {
  if (errors_.empty()) return 0.0;
  const auto count = static_cast<double>(errors_.size());
  const double mean = std::accumulate(errors_.begin(), errors_.end(), 0.0) / count;
  double squares = 0.0;
  for (const double each : errors_) squares += (each - mean) * (each - mean);
  return mean + kDeviationsOfLargest * std::sqrt(squares / std::max(1.0, count - 1.0));
}

}  // namespace shardsim
