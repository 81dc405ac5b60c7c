#pragma once

#include <cstdint>

#include "sim/kernel/random.hpp"

#include "sim/run/whole_training.hpp"

namespace shardsim {

struct SimulatedTraining {
  TimeShares shares;          ///< Shares of the wall-clock time.
  std::int64_t segments = 0;  ///< Those that were finished.
  double wall_s = 0.0;
  double mean_segment_s = 0.0;
  double standard_error_s = 0.0;  ///< The error of that mean, from the segments' own spread.
  std::int64_t failures = 0;
};

/// A training that goes from failure to failure, one event after the other: what the closed forms
/// of the mean are compared with. It has `segments` of `interval_s` of work and a checkpoint, and
/// ends early after `most_failures`. `draws`: its failures.
[[nodiscard]] SimulatedTraining simulate_training(const FailureModel& model, double interval_s,
                                                  std::int64_t segments, const RandomStream& draws,
                                                  std::int64_t most_failures = INT64_MAX);

}  // namespace shardsim
