#pragma once

#include <cstddef>
#include <vector>

// Fits a bandwidth factor f and an added latency a to
//   measured = latency + a + transfer / f,
// by medians, which a few bad sizes do not move. 1 / f is the median of (measured - latency - a) /
// transfer over the large sizes; a is that of measured - latency - transfer / f over the small
// ones. Both are computed in turn until neither changes. The sizes between are not used: there
// NCCL's own model is a table of fudges.
namespace shardsim {

/// One size, in microseconds: the two parts of NCCL's model, and the measurement.
struct CalibrationPoint {
  double latency_us = 0.0;
  double transfer_us = 0.0;
  double measured_us = 0.0;
};

/// At least this many times as long as the other part is.
inline constexpr double kDominates = 2.0;
[[nodiscard]] bool is_large(const CalibrationPoint& point);
[[nodiscard]] bool is_small(const CalibrationPoint& point);

/// The parts that are fitted; the others stay as the system has them.
struct FittedParts {
  bool bandwidth = true;
  bool latency = true;
};

/// How many points there are for each part.
struct PointCounts {
  std::size_t large = 0;
  std::size_t small = 0;

  /// Whether each part that is fitted has `least` of its own.
  [[nodiscard]] bool suffice(const FittedParts& parts, std::size_t least) const;
};
[[nodiscard]] PointCounts count_points(const std::vector<CalibrationPoint>& points);

struct FittedCorrection {
  double bandwidth_factor = 1.0;
  double added_latency_us = 0.0;

  [[nodiscard]] double predict(const CalibrationPoint& point) const {
    return point.latency_us + added_latency_us + point.transfer_us / bandwidth_factor;
  }
};

/// A part that is not fitted equals that of `given` in every bit; a fitted part ignores `given`. A
/// fitted latency is kLeastAddedLatency or more. REQUIRES: suffice() with 1. The factor may be
/// anything, also below 0, if measurements and model have nothing in common.
[[nodiscard]] FittedCorrection fit_correction(const std::vector<CalibrationPoint>& points,
                                              const FittedParts& parts,
                                              const FittedCorrection& given = {});

/// Rounded to the written digits: four behind the point, and two. A part that is not fitted stays.
[[nodiscard]] FittedCorrection rounded(const FittedCorrection& correction,
                                       const FittedParts& parts = {});

/// Mean of |predicted / measured - 1|, 0 for no points.
[[nodiscard]] double mean_error(const std::vector<CalibrationPoint>& points,
                                const FittedCorrection& correction);

}  // namespace shardsim
