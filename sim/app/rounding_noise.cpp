#include "sim/app/rounding_noise.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace shardsim {

double largest(const std::vector<double>& values) {
  double most = 0.0;
  for (const double value : values) most = std::max(most, std::fabs(value));
  return most;
}

double largest(const ReferenceTensors& tensors) {
  double most = 0.0;
  for (const std::vector<double>& values : tensors) most = std::max(most, largest(values));
  return most;
}

double worse(double a, double b) { return a > b || std::isnan(a) ? a : b; }

double relative(double difference, double of) {
  if (difference == 0.0) return 0.0;
  return of > 0.0 ? difference / of : difference / std::numeric_limits<double>::min();
}

std::vector<double> noise_of(const ReferenceTensors& rounded, const ReferenceTensors& exact) {
  const double floor = kNoiseFloor * largest(exact);
  std::vector<double> noise;
  for (std::size_t i = 0; i < rounded.size(); ++i) {
    double difference = 0.0;
    for (std::size_t j = 0; j < rounded[i].size(); ++j) {
      difference = worse(std::fabs(rounded[i][j] - exact[i][j]), difference);
    }
    noise.push_back(relative(difference, std::max(largest(exact[i]), floor)));
  }
  return noise;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double unit_roundoff_of(const SyncPlan& sync, std::string_view kind) {
  if (kind == "parameter") return unit_roundoff(sync.weight_dtype);
  if (kind == "gradient" || kind == "loss") {
    return std::max(unit_roundoff(sync.weight_dtype), unit_roundoff(sync.gradient_dtype));
  }
  return unit_roundoff(sync.master_dtype);
}

}  // namespace shardsim
