#include <cmath>

#include <catch2/catch.hpp>
#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "sim/hardware/nccl/overrides.hpp"

#include "sim/accuracy/calibration.hpp"

namespace shardsim {
namespace {

using Points = std::vector<CalibrationPoint>;

// Powers of two as a latency and a bandwidth price them, measured as the correction has it.
Points measured(double latency_us, double bytes_per_us, const FittedCorrection& truth) {
  Points points;
  for (int power = 3; power <= 33; ++power) {
    CalibrationPoint point{.latency_us = latency_us,
                           .transfer_us = std::ldexp(1.0, power) / bytes_per_us};
    point.measured_us = truth.predict(point);
    points.push_back(point);
  }
  return points;
}

}  // namespace

TEST_CASE("a correction that made the times is found again") {
  rc::prop("whatever it is", [] {
    const FittedCorrection truth{.bandwidth_factor = *rc::gen::inRange(20, 400) / 100.0,
                                 .added_latency_us = *rc::gen::inRange(-50, 2000) / 10.0};
    const Points points =
        measured(*rc::gen::inRange(8, 300), *rc::gen::inRange(1000, 500'000), truth);
    const PointCounts counts = count_points(points);
    RC_PRE(counts.large >= 2 && counts.small >= 2);
    const FittedCorrection found = fit_correction(points, {});
    // Sums and quotients of doubles: 1e-9 is the bound of everything in double precision here.
    RC_ASSERT(std::abs(found.bandwidth_factor / truth.bandwidth_factor - 1) < 1e-9);
    RC_ASSERT(std::abs(found.added_latency_us - truth.added_latency_us) < 1e-6);
    RC_ASSERT(rounded(found).bandwidth_factor == rounded(truth).bandwidth_factor);
    RC_ASSERT(mean_error(points, truth) == 0.0);
  });
}

TEST_CASE("sizes that were disturbed do not move the fit") {
  const FittedCorrection truth{.bandwidth_factor = 0.8, .added_latency_us = 12};
  Points points = measured(20, 100'000, truth);
  points[2].measured_us *= 40;
  points[7].measured_us *= 3;
  points[26].measured_us *= 100;
  points[30].measured_us *= 5;
  const FittedCorrection found = rounded(fit_correction(points, {}));
  CHECK(found.bandwidth_factor == 0.8);
  CHECK(found.added_latency_us == 12);
}

TEST_CASE("sizes at which neither part dominates are not fitted to") {
  Points points = measured(20, 100'000, {});
  int num_between = 0;
  for (CalibrationPoint& point : points) {
    if (is_large(point) || is_small(point)) continue;
    point.measured_us *= 7;
    ++num_between;
  }
  CHECK(num_between == 2);  // 2 and 4 MiB: 21 and 42 us
  const FittedCorrection found = rounded(fit_correction(points, {}));
  CHECK(found.bandwidth_factor == 1);
  CHECK(found.added_latency_us == 0);
  CHECK(mean_error(points, found) > 0.05);  // They count in the error.
}

TEST_CASE("a part that is not fitted stays") {
  const FittedCorrection truth{.bandwidth_factor = 0.5, .added_latency_us = 30};
  const Points points = measured(20, 100'000, truth);
  const FittedCorrection latency = fit_correction(points, {.bandwidth = false});
  CHECK(latency.bandwidth_factor == 1);
  CHECK(latency.added_latency_us == Approx(30).margin(1));  // Small sizes have few bytes.
  const FittedCorrection bandwidth = fit_correction(points, {.latency = false});
  CHECK(bandwidth.added_latency_us == 0);
  CHECK(bandwidth.bandwidth_factor == Approx(0.5).margin(0.05));  // Large ones have little latency.
  // As given, in every bit, and the other part is fitted beside it.
  const FittedCorrection beside = fit_correction(points, {.bandwidth = false}, {0.3, 5});
  CHECK(beside.bandwidth_factor == 0.3);
  CHECK(fit_correction(points, {.bandwidth = false}, {0.5, 5}).added_latency_us == Approx(30));
  const FittedParts alone = {.latency = false};
  CHECK(fit_correction(points, alone, {0.3, 30}).bandwidth_factor == Approx(0.5));
  CHECK(rounded({1.0 / 3, 1.0 / 3}, alone).added_latency_us == 1.0 / 3);
  CHECK(rounded({1.0 / 3, 1.0 / 3}, {.bandwidth = false}).bandwidth_factor == 1.0 / 3);
}

TEST_CASE("no latency is added below the least") {
  const FittedCorrection found =
      fit_correction(measured(40, 100'000, {.added_latency_us = -30}), {});
  CHECK(found.added_latency_us == kLeastAddedLatency);
}

TEST_CASE("points are counted for the part that they tell of") {
  const Points points = {{10, 20, 0}, {10, 19, 0}, {10, 5, 0}, {10, 6, 0}, {10, 1, 0}};
  const PointCounts counts = count_points(points);
  CHECK(counts.large == 1);
  CHECK(counts.small == 2);
  CHECK(counts.suffice({}, 1));
  CHECK_FALSE(counts.suffice({}, 2));
  CHECK(counts.suffice({.bandwidth = false}, 2));
  CHECK_FALSE(counts.suffice({.latency = false}, 2));
}

TEST_CASE("no rounded correction is a negative zero") {
  const FittedCorrection found = rounded({.added_latency_us = -1e-9});
  CHECK_FALSE(std::signbit(found.added_latency_us));
}

}  // namespace shardsim
