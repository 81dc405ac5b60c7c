#include "sim/run/goodput/poisson_interval.hpp"

#include <cmath>

namespace shardsim {

namespace {

constexpr std::int64_t kMostExact = 100;
constexpr double kTail = 0.05;         // On either side.
constexpr double kNormal = 1.6448536;  // The normal distribution's quantile of that.

// P(X <= count) of a Poisson X.
double at_most(std::int64_t count, double mean) {
  double term = std::exp(-mean);
  double sum = term;
  for (std::int64_t k = 1; k <= count; ++k) {
    term *= mean / static_cast<double>(k);
    sum += term;
  }
  return sum;
}

// The mean at which P(X <= count) is `share`: it falls with the mean.
double mean_where(std::int64_t count, double share) {
  double low = 0.0;
  double high = 3.0 * static_cast<double>(kMostExact);
  constexpr int kHalvings = 100;
  for (int i = 0; i < kHalvings; ++i) {
    const double mean = low + (high - low) / 2.0;
    (at_most(count, mean) > share ? low : high) = mean;
  }
  return low;
}

double cube(double value) { return value * value * value; }

}  // namespace

PoissonInterval byar_interval(double count) {
  const double more = count + 1.0;
  return {count * cube(1.0 - 1.0 / (9.0 * count) - kNormal / (3.0 * std::sqrt(count))),
          more * cube(1.0 - 1.0 / (9.0 * more) + kNormal / (3.0 * std::sqrt(more)))};
}

PoissonInterval poisson_interval(std::int64_t count) {
  if (count > kMostExact) return byar_interval(static_cast<double>(count));
  return {mean_where(count - 1, 1.0 - kTail), mean_where(count, kTail)};
}

}  // namespace shardsim
