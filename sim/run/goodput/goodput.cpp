#include "sim/run/goodput/goodput.hpp"

#include <cmath>

namespace shardsim {

double young_interval_s(const FailureModel& model) {
  return std::sqrt(2.0 * model.checkpoint_s * model.mtbf_s);
}

double daly_interval_s(const FailureModel& model) {
  const double x = model.checkpoint_s / (2.0 * model.mtbf_s);
  if (x >= 1.0) return model.mtbf_s;
  return young_interval_s(model) * (1.0 + std::sqrt(x) / 3.0 + x / 9.0) - model.checkpoint_s;
}

double best_interval_s(const FailureModel& model) {
  // Written as expm1(y) = z / (1 - z) with z = T / M and y = (T + C) / M. Below the root the left
  // side is the larger one. Both are accurate if failures are rare.
  const double c = model.checkpoint_s / model.mtbf_s;
  double low = 0.0;
  double high = 1.0;
  constexpr int kBits = 200;  // More than a double has, down from 1.
  for (int i = 0; i < kBits; ++i) {
    const double z = low + (high - low) / 2.0;
    (std::expm1(z + c) * (1.0 - z) > z ? low : high) = z;
  }
  return low * model.mtbf_s;
}

double expected_segment_s(const FailureModel& model, double interval_s) {
  const double m = model.mtbf_s;
  return m * std::exp(model.restart_s / m) * std::expm1((interval_s + model.checkpoint_s) / m);
}

TimeShares time_shares(const FailureModel& model, double interval_s) {
  const double m = model.mtbf_s;
  const double segment_s = interval_s + model.checkpoint_s;
  // The expected time is that of attempts, M (e^y - 1), by e^(R/M): no term of these overflows.
  const double attempts = std::exp(-model.restart_s / m);
  const double kept = segment_s / m / std::expm1(segment_s / m);
  return {.useful = attempts * kept * interval_s / segment_s,
          .checkpoint = attempts * kept * model.checkpoint_s / segment_s,
          .rework = attempts * (1.0 - kept),
          .restart = -std::expm1(-model.restart_s / m)};
}

}  // namespace shardsim
