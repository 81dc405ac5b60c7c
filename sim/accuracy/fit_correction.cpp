#include "sim/accuracy/fit_correction.hpp"

#include <algorithm>
#include <cmath>

#include "sim/hardware/nccl/overrides.hpp"

namespace shardsim {

namespace {

double interpolated_median(std::vector<double> values) {
  const auto middle = static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), values.begin() + middle, values.end());
  const double upper = values[static_cast<std::size_t>(middle)];
  if (values.size() % 2 == 1) return upper;
  return (*std::max_element(values.begin(), values.begin() + middle) + upper) / 2;
}

// 1 / f, given a.
double slowness(const std::vector<CalibrationPoint>& points, double added_us) {
  std::vector<double> values;
  for (const CalibrationPoint& point : points) {
    if (!is_large(point)) continue;
    values.push_back((point.measured_us - point.latency_us - added_us) / point.transfer_us);
  }
  return interpolated_median(std::move(values));
}

// a, given 1 / f.
double added_latency(const std::vector<CalibrationPoint>& points, double slowness) {
  std::vector<double> values;
  for (const CalibrationPoint& point : points) {
    if (!is_small(point)) continue;
    values.push_back(point.measured_us - point.latency_us - point.transfer_us * slowness);
  }
  return std::max(kLeastAddedLatency, interpolated_median(std::move(values)));
}

}  // namespace

bool is_large(const CalibrationPoint& point) {
  return point.transfer_us >= kDominates * point.latency_us;
}

bool is_small(const CalibrationPoint& point) {
  return point.latency_us >= kDominates * point.transfer_us;
}

bool PointCounts::suffice(const FittedParts& parts, std::size_t least) const {
  return (!parts.bandwidth || large >= least) && (!parts.latency || small >= least);
}

PointCounts count_points(const std::vector<CalibrationPoint>& points) {
  PointCounts counts;
  for (const CalibrationPoint& point : points) {
    counts.large += is_large(point) ? 1 : 0;
    counts.small += is_small(point) ? 1 : 0;
  }
  return counts;
}

// A change of a moves 1 / f by less than a / transfer of a large size. That moves a by the transfer
// of a small one: far less, so that some rounds are enough.
FittedCorrection fit_correction(const std::vector<CalibrationPoint>& points,
                                const FittedParts& parts, const FittedCorrection& given) {
  constexpr int kMostRounds = 200;
  constexpr double kSettledUs = 1e-9;
  double inverse = parts.bandwidth ? 1.0 : 1.0 / given.bandwidth_factor;
  double added_us = parts.latency ? 0.0 : given.added_latency_us;
  for (int round = 0; round < kMostRounds; ++round) {
    const double before = added_us;
    if (parts.bandwidth) inverse = slowness(points, added_us);
    if (parts.latency) added_us = added_latency(points, inverse);
    if (std::abs(added_us - before) < kSettledUs) break;
  }
  return {.bandwidth_factor = parts.bandwidth ? 1.0 / inverse : given.bandwidth_factor,
          .added_latency_us = added_us};
}

FittedCorrection rounded(const FittedCorrection& correction, const FittedParts& parts) {
  FittedCorrection result = correction;
  if (parts.bandwidth) result.bandwidth_factor = std::round(result.bandwidth_factor * 1e4) / 1e4;
  // Plus 0, so that nothing is -0.
  if (parts.latency) {
    result.added_latency_us = std::round(result.added_latency_us * 1e2) / 1e2 + 0.0;
  }
  return result;
}

double mean_error(const std::vector<CalibrationPoint>& points, const FittedCorrection& correction) {
  double sum = 0.0;
  for (const CalibrationPoint& point : points) {
    sum += std::abs(correction.predict(point) / point.measured_us - 1.0);
  }
  return points.empty() ? 0.0 : sum / static_cast<double>(points.size());
}

}  // namespace shardsim
