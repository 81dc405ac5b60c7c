#pragma once

#include <string>

#include "scenarios/scenario.hpp"

// The smallest error that the oracle finds. One factor multiplies every tensor of one kind on all
// ranks, so only one device on the whole batch can tell.
namespace shardsim::test {

struct PlantedScale {
  /// "gradient", "parameter", "loss", "master", or a state of the optimizer ("exp_avg").
  std::string kind;
  double factor = 1.0;
  /// Scales this parameter alone; -1: all of them. REQUIRES: -1 for "loss" and "master", and where
  /// tensor or pipeline parallelism cuts the model.
  int parameter = -1;
};

struct ScaleVerdict {
  bool found = false;
  /// The oracle's verdict in words.
  std::string detail;
};

/// Trains `scenario` with the error on all ranks, and asks the oracle. The optimizer scales a
/// master, so that the weights are still its rounding.
[[nodiscard]] ScaleVerdict verdict_on(const Scenario& scenario, const PlantedScale& planted);

/// The largest k of 1 to 60 for which 1 + 2^-k is found in that kind; 0: not even a factor of two.
/// REQUIRES: `scenario` passes without an error.
[[nodiscard]] int most_bits_found(const Scenario& scenario, const std::string& kind,
                                  int parameter = -1);

}  // namespace shardsim::test
