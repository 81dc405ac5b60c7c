#pragma once

#include "reports/result.hpp"

// Days, GPU hours and dollars of a training have the range that its step has.
namespace shardsim {

/// A quantity in proportion to the time of a step. Without a band of the step, all four are the
/// model's.
struct BandRange {
  double low = 0;
  double centre = 0;  ///< The headline.
  double high = 0;
  double by_the_model = 0;
};

/// REQUIRES: the result has a step time if it has its band.
[[nodiscard]] BandRange range_with_step(const Result& result, double by_the_model);

/// The same for a quantity in inverse proportion: tokens per second.
[[nodiscard]] BandRange range_against_step(const Result& result, double by_the_model);

}  // namespace shardsim
