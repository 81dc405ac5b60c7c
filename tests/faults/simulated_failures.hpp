#pragma once

#include <cstdint>

#include "sim/run/whole_training.hpp"

// A training as it goes from failure to failure, one event after the other: what the closed forms
// are held against. Failures are drawn from a seed by counter-based numbers.
namespace shardsim::test {

struct SimulatedTraining {
  TimeShares shares;  ///< Shares of the wall-clock time.
  double mean_segment_s = 0.0;
  double standard_error_s = 0.0;  ///< The error of that mean, from the segments' own spread.
  std::int64_t failures = 0;
};

/// `segments` of `interval_s` of work and a checkpoint, one after the other.
[[nodiscard]] SimulatedTraining simulate_training(const FailureModel& model, double interval_s,
                                                  int segments, std::uint64_t seed);

}  // namespace shardsim::test
