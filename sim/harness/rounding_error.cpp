#include "sim/harness/rounding_error.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace shardsim {

namespace {

constexpr double kDeviations = 6.0;
constexpr double kUniform = 3.0;  // The square of a bound by the variance.
constexpr double kDeviationsOfLargest = 9.0;

}  // namespace

double most_of_errors(double all, double squares) {
  return std::min(all, kDeviations * std::sqrt(squares / kUniform));
}

void DrawnErrors::add(const std::vector<double>& drawn, const std::vector<double>& exact) {
  double largest = 0.0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double error = std::fabs(drawn[i] - exact[i]);
    if (std::isfinite(error)) largest = std::max(largest, error);
  }
  largest_.push_back(largest);
}

double DrawnErrors::bound() const {
  if (largest_.empty()) return 0.0;
  const auto count = static_cast<double>(largest_.size());
  const double mean = std::accumulate(largest_.begin(), largest_.end(), 0.0) / count;
  double squares = 0.0;
  for (const double each : largest_) squares += (each - mean) * (each - mean);
  return mean + kDeviationsOfLargest * std::sqrt(squares / std::max(1.0, count - 1.0));
}

}  // namespace shardsim
